"""The dataset adapter: a dataset writes text, the harness turns it into requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Sample:
    """One request as text. Concatenated: instruction + context + query (+ answer_prefix).

    The chat template is put around it later (`bench.data.requests`): the instruction and the query
    belong to the user's turn, `answer_prefix` opens the assistant's.
    """

    id: str
    instruction: str
    context: str
    query: str
    references: tuple[str, ...]
    max_new_tokens: int
    answer_prefix: str = ""
    evidence: tuple[tuple[int, int], ...] = field(default=())
    """Answer-bearing spans of `context`: (begin, end) character offsets, end exclusive."""
    needles: tuple[tuple[int, int], ...] = field(default=())
    """Spans in which the evidence is told (a needle's sentence, a line of a chain), where a dataset
    knows them. Counted where a chunk's edge cuts one; methods do not see them."""
    question: str = ""
    """The part of `query` that is the question itself, where a template stands around it."""
    chunk_begins: tuple[int, ...] = field(default=())
    """Where the chunks begin in `context` (characters, the first 0), for text that is retrieved in pieces
    of its own: each is tokenised apart and at most `Fit.chunk_tokens` long. Empty: chunks are cut every
    `Fit.chunk_tokens` tokens."""


@dataclass(frozen=True)
class Fit:
    """How long a context has to be, in the tokens of the model at hand.

    `tokens` is N = chunks x tokens a chunk; a context may be shorter, never longer.
    `count(text)` gives a context's length in tokens, `cut(text, n)` its first n tokens as text
    and `tail(text, n)` its last n. `chunk_tokens` is the length of one chunk (0: not known).
    """

    tokens: int
    count: Callable[[str], int]
    cut: Callable[[str, int], str]
    tail: Callable[[str, int], str]
    chunk_tokens: int = 0


@dataclass
class Dataset(ABC):
    """One family of tasks; fields of the dataclass are its parameters.

    A file in `datasets/` defines one subclass and names it `DATASET`. A task is written
    "family/task" ("ruler/mq"), or "family" where there is one task only.
    """

    task: str = ""

    name: ClassVar[str]
    about: ClassVar[str]
    """One line for `qcbench datasets`."""
    tasks: ClassVar[tuple[str, ...]]
    """Names of the tasks; ("",) where the family is one task."""
    metric: ClassVar[str]
    """A name in `bench.metrics.METRICS`."""
    open_tasks: ClassVar[bool] = False
    """Whether any other task name is taken too: that of a file the user hands over."""
    note: ClassVar[str] = ""
    """A caveat shown wherever the scores are ("LongBench-format, not LongBench")."""

    @abstractmethod
    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Make n samples whose contexts fit; the same (task, fit, n, seed) gives the same samples.

        The first k of n samples are those of a call with n = k. Raises `UserError` where data
        is missing or malformed, or the context cannot be made that short or that long.
        """

    @property
    def scored_by(self) -> str:
        """The task's metric, a name in `bench.metrics.METRICS`: `metric`, unless a family's tasks differ."""
        return self.metric

    @property
    def caveat(self) -> str:
        """`note`, unless a family's tasks differ."""
        return self.note

    @property
    def takes_short(self) -> bool:
        """Whether a context may fill fewer chunks than asked for.

        False for text made to measure, where too few chunks are a mistake; True for records that are
        what they are. Such a request keeps its full chunks and a shorter last one.
        """
        return False

    def provenance(self) -> dict[str, Any]:
        """What the samples depend on besides seed and fit (file hashes, truncation policy)."""
        return {}
