"""RULER's templates, needles and noise, byte for byte.

NVIDIA/RULER (commit c3f5e3b): scripts/data/synthetic/constants.py (templates, tokens to
generate), niah.py (needle, depths, singular form) and variable_tracking.py (chain lines, noise).
The spelling "assigned" is that of the present head; before 2025-05-13 it was "assgined".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Template:
    """A prompt in three parts; `context` goes between `before` and `after`."""

    before: str
    after: str
    answer_prefix: str

    def singular(self) -> Template:
        """One needle, one answer: niah.py's chain of replacements, on the unfilled template."""

        def one(text: str) -> str:
            for old, new in (("Some", "A"), ("are all", "is"), ("are", "is"), ("answers", "answer")):
                text = text.replace(old, new)
            return text

        return Template(one(self.before), one(self.after), one(self.answer_prefix))


NIAH = Template(
    "Some special magic {type_needle_v} are hidden within the following text. Make sure to memorize it."
    " I will quiz you about the {type_needle_v} afterwards.\n",
    "\nWhat are all the special magic {type_needle_v} for {query} mentioned in the provided text?",
    " The special magic {type_needle_v} for {query} mentioned in the provided text are",
)
NEEDLE = "One of the special magic numbers for {key} is: {value}."
DEPTHS = tuple(round(100 * i / 39) for i in range(40))
"""Per cent of the sentences before a needle: np.round(np.linspace(0, 100, 40))."""

VT = Template(
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n",
    "\nQuestion: Find all variables that are assigned the value {query} in the text above.",
    " Answer: According to the chain(s) of variable assignment in the text above, {num_v} variables"
    " are assigned the value {query}, they are: ",
)
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NIAH_TOKENS = 128
VT_TOKENS = 30


def chain(names: list[str], value: str) -> list[str]:
    """Lines of one chain of assignments; all but the first end with a space, as in RULER."""
    links = [f"VAR {new} = VAR {old} " for old, new in pairwise(names)]
    return [f"VAR {names[0]} = {value}", *links]


def enumerate_keys(keys: list[str]) -> str:
    """Join keys the way niah.py asks for them: "a", "a, and b", "a, b, and c"."""
    return ", ".join(keys[:-1]) + ", and " + keys[-1] if len(keys) > 1 else keys[0]
