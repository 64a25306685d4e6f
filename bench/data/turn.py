"""The user's turn as a model's chat template writes it, and the other duties of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from transformers import PreTrainedTokenizerBase

from bench.dataset import Fit
from bench.errors import UserError

_SENTINEL = "qcbench0user0turn0qcbench"


@dataclass(frozen=True)
class Turn:
    """The user's turn as the model's chat template writes it, and the tokenizer's other duties.

    The template's own text is tokenised with its special tokens; a dataset's text never is, so
    "<|im_end|>" inside a passage stays text. Templates that can think first are told not to
    (`enable_thinking=False`): the answers are short. Without a template the turn is a BOS token,
    where the tokenizer adds one, and nothing else.
    """

    tokenizer: PreTrainedTokenizerBase

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise UserError(
                f"{type(self.tokenizer).__name__} is a slow tokenizer without character offsets; "
                "use a model with a tokenizer.json"
            )

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Ids before the instruction."""
        if self.tokenizer.chat_template:
            return self._markup(self._halves[0])
        bos = self.tokenizer.bos_token_id
        adds = bos is not None and self.tokenizer("x")["input_ids"][0] == bos
        return (bos,) if adds else ()

    @cached_property
    def after(self) -> tuple[int, ...]:
        """Ids after the query: the end of the turn and the assistant's header."""
        return self._markup(self._halves[1]) if self.tokenizer.chat_template else ()

    def ids(self, text: str) -> list[int]:
        """Ids of a dataset's text."""
        coded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
        return list(coded["input_ids"])

    def text(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of a dataset's text and each token's (begin, end) characters in it."""
        coded = self.tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        return coded["input_ids"], coded["offset_mapping"]

    def fit(self, tokens: int, chunk_tokens: int = 0) -> Fit:
        """What a dataset needs to know about lengths."""

        def count(text: str) -> int:
            return len(self.ids(text))

        def cut(text: str, n: int) -> str:
            offsets = self.text(text)[1]
            if n >= len(offsets):
                return text
            # An edge inside a character or a merge can count one more token: then take one less.
            for last in range(n, 0, -1):
                kept = text[: offsets[last - 1][1]]
                if count(kept) <= n:
                    return kept
            return ""

        def tail(text: str, n: int) -> str:
            offsets = self.text(text)[1]
            if n >= len(offsets):
                return text
            for first in range(len(offsets) - n, len(offsets)):
                kept = text[offsets[first][0] :]
                if count(kept) <= n:
                    return kept
            return ""

        return Fit(tokens=tokens, count=count, cut=cut, tail=tail, chunk_tokens=chunk_tokens)

    @cached_property
    def _halves(self) -> tuple[str, str]:
        filled = str(
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": _SENTINEL}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        )
        if filled.count(_SENTINEL) != 1:
            raise UserError("the tokenizer's chat template does not hold the user's message exactly once")
        before, after = filled.split(_SENTINEL)
        return before, after

    def _markup(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()
