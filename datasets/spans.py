"""Questions with marked answers: SQuAD, Natural Questions, NewsQA; for calibration first of all."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.assets import hub
from bench.data import datafiles, span_files
from bench.data.longbench_format import BEFORE_CONTEXT, MAX_NEW_TOKENS, after_context
from bench.data.spans import SpanRecord, Spans, all_occurrences
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.sentences import enclosing

REPOSITORY = "mrqa-workshop/mrqa"
MEMBER = "plain_text/validation-00000-of-00001.parquet"
REVISION = "main"
VARIABLE = "QCBENCH_SPANS"
_LIMIT = 2000


@dataclass
class SpanSets(Dataset):
    """A question, the paragraph that answers it, and paragraphs of other questions around it.

    QCFuse (section 3.2.3) calibrates on SQuAD, NewsQA and Natural Questions, whose answers are marked.
    It does not say how a request of several chunks is made of one short paragraph. Here the paragraph is
    put at a random place among paragraphs of the same file that hold none of its answers, in LongBench's
    layout and with its prompt, until the context is full (the last paragraph is cut). `seed` picks the
    questions, their order and the others.

    `path`: a file (formats: `bench.data.span_files`) or a folder with `<task>.<anything>`; without it the
    variable QCBENCH_SPANS, then the hub (MRQA's validation split). `sha256`: of that file, which another
    one is then refused for. `occurrences`: which places are evidence, "annotated" (those marked) or "all"
    (every place in the paragraph where a marked answer's string stands); the sentences they stand in
    (Punkt's) are the needles. `fill`: False leaves the
    paragraph alone, and requests short. `limit`: questions read from the file, from its beginning.
    """

    path: str | None = None
    sha256: str | None = None
    occurrences: str = "annotated"
    fill: bool = True
    limit: int = _LIMIT
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "spans"
    about: ClassVar[str] = "questions with marked answers, among other paragraphs: for calibration"
    tasks: ClassVar[tuple[str, ...]] = ("squad", "natural_questions", "newsqa")
    metric: ClassVar[str] = "f1"
    note: ClassVar[str] = "LongBench-format, not LongBench"

    def __post_init__(self) -> None:
        if self.occurrences not in ("annotated", "all"):
            raise UserError(f'spans: occurrences is "annotated" or "all", not {self.occurrences!r}')
        if self.limit < 1:
            raise UserError("spans: limit must be at least 1")

    @property
    def takes_short(self) -> bool:
        """True where the paragraph stands alone."""
        return not self.fill

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Make n samples; raises `UserError` for bad data and where too few questions or too little
        text are there."""
        file = _find(self.path, self.task)
        data, digest = datafiles.read(file, "spans", "a file of marked answers")
        datafiles.require_hash(file, digest, self.sha256)
        records = span_files.load(file, data, self.task, self.limit)
        order = random.Random(f"{seed}/{self.task}").sample(records, len(records))
        shelf = _Shelf(fit, records)
        samples: list[Sample] = []
        too_long = 0
        for record in order:
            if len(samples) == n:
                break
            made = self._sample(fit, shelf, record, seed)
            too_long += made is None
            samples += [made] if made else []
        if len(samples) < n:
            raise UserError(
                f"{file}: {n} questions asked for, {len(samples)} there "
                f"({too_long} paragraphs longer than {fit.tokens} tokens)"
            )
        self._facts = {
            "file": str(file),
            "sha256": digest,
            "questions_read": len(records),
            "skipped_too_long": too_long,
            "revision": REVISION if self.path is None and not os.environ.get(VARIABLE) else None,
        }
        return samples

    def provenance(self) -> dict[str, Any]:
        """The policies; once samples are made, the file's SHA-256 and what was left out."""
        return {"occurrences": self.occurrences, "fill": self.fill, **self._facts}

    def _sample(self, fit: Fit, shelf: _Shelf, record: SpanRecord, seed: int) -> Sample | None:
        rng = random.Random(f"{seed}/{self.task}/{record.id}")
        made = shelf.around(record, rng) if self.fill else _alone(fit, record)
        if made is None:
            return None
        context, at = made
        marked: Spans = all_occurrences(record) if self.occurrences == "all" else record.spans
        return Sample(
            id=f"{self.task}-{seed}-{record.id}",
            instruction=BEFORE_CONTEXT,
            context=context,
            query=after_context(record.question),
            question=record.question,
            references=record.answers,
            max_new_tokens=MAX_NEW_TOKENS,
            evidence=tuple((at + begin, at + end) for begin, end in marked),
            needles=tuple((at + begin, at + end) for begin, end in enclosing(record.context, marked)),
        )


class _Shelf:
    """The paragraphs of a file, each once, to put around another one."""

    def __init__(self, fit: Fit, records: list[SpanRecord]) -> None:
        self._fit = fit
        self._all = list({r.context: r for r in records}.values())
        self._sizes: dict[str, int] = {}

    def around(self, record: SpanRecord, rng: random.Random) -> tuple[str, int] | None:
        """A full context and where the record's paragraph begins in it; None where that is too long."""
        room = self._fit.tokens
        if self._fit.count(_passage(1, record)) > room:
            return None
        others = [
            r
            for r in rng.sample(self._all, len(self._all))
            if r.context != record.context and not any(a in r.context for a in record.answers)
        ]
        share = rng.random()
        k, size = 0, self._size(record)
        while k < len(others) and size <= room:
            size += self._size(others[k])
            k += 1
        while self._fit.count(_join(record, others[:k], share)[0]) > room:  # ends: alone it fits
            k -= 1
        while k < len(others) and self._fit.count(_join(record, others[: k + 1], share)[0]) <= room:
            k += 1
        context, at = _join(record, others[:k], share)
        if k < len(others):
            return self._fit.cut(f"{context}\n{_passage(k + 2, others[k])}", room), at
        raise UserError(
            f"spans: the file's other paragraphs do not fill {room} tokens (question {record.id}); ask for "
            "fewer or shorter chunks, give a larger file, or set fill to false"
        )

    def _size(self, record: SpanRecord) -> int:
        if record.context not in self._sizes:
            self._sizes[record.context] = self._fit.count(_passage(1, record))
        return self._sizes[record.context]


def _alone(fit: Fit, record: SpanRecord) -> tuple[str, int] | None:
    context = _passage(1, record)
    return (context, len(context) - len(record.context)) if fit.count(context) <= fit.tokens else None


def _passage(number: int, record: SpanRecord) -> str:
    title = f"{record.title}\n" if record.title else ""
    return f"Passage {number}:\n{title}{record.context}"


def _join(record: SpanRecord, others: list[SpanRecord], share: float) -> tuple[str, int]:
    """Passages with the record's own at a share of the way, and where its paragraph begins."""
    place = int(share * (len(others) + 1))
    passages = [*others[:place], record, *others[place:]]
    texts = [_passage(i, r) for i, r in enumerate(passages, 1)]
    end = len("\n".join(texts[: place + 1]))
    return "\n".join(texts), end - len(record.context)


def _find(path: str | None, task: str) -> Path:
    given = path or os.environ.get(VARIABLE)
    if given is None:
        return _download()
    file = Path(given)
    if file.is_dir():
        found = sorted(file.glob(f"{task}.*"))
        if len(found) != 1:
            raise UserError(f"spans: {file} holds {len(found)} files {task}.*, expected one")
        return found[0]
    return file


def _download() -> Path:
    try:
        return hub.file(REPOSITORY, MEMBER, REVISION, None, kind="dataset")
    except (hub.NoAnswerError, OSError) as error:
        raise UserError(
            f"spans: {REPOSITORY} cannot be downloaded ({error}); give the option path=FILE, or set "
            f"{VARIABLE} to it (formats: qcbench datasets spans)"
        ) from error


DATASET = SpanSets
