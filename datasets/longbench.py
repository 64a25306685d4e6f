"""LongBench's multi-document question answering, LongBench-E's, and other files in the same schema."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.assets import hub
from bench.data import datafiles
from bench.data.longbench_format import (
    BEFORE_CONTEXT,
    GENERIC_BEFORE,
    MAX_NEW_TOKENS,
    after_context,
    check_record,
    generic_after,
)
from bench.data.spans import occurrences
from bench.data.truncate import POLICIES, truncate
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.metrics import METRICS

REPOSITORY = "zai-org/LongBench"
REVISION = "5e628be450b7e67fb7ae6e201bd6d8f7056f7672"
SHA256 = "cb45b11a4133c6bc1d6a44b0f8e701335ff1e543195db1103472e575857f7f64"
"""data.zip of that revision, as a public repository records it; compared, not insisted on."""
VARIABLE = "QCBENCH_LONGBENCH"


@dataclass
class LongBench(Dataset):
    """LongBench v1 (THUDM/LongBench), official prompt, 32 new tokens, token F1.

    The instruction up to "passages.\\n" is the prefix, the record's `context` is what is chunked,
    the instruction repeated, the question and "Answer:" are the query. Records are taken in the
    file's order; `seed` changes nothing. `hotpotqa_e` and `2wikimqa_e` are LongBench-E's.

    Any other task name stands for `<task>.jsonl` in the path given: records with LongBench's `input`,
    `context`, `answers` and `_id`, in any layout, with a generic prompt of ours. `score`: its metric
    (a name in `bench.metrics`); `new_tokens`: instead of 32. LongBench's own tasks take neither.

    `path`: a `data.zip`, a folder with `<task>.jsonl`, or that file; without it the variable
    QCBENCH_LONGBENCH, then the hub. `sha256`: of that file (zip or JSONL), which another one is then
    refused for. `truncation`: what stays of a context that is too long (`bench.data.truncate`):
    "keep-first", "middle" or "gold-preserving". `short`: a context with fewer chunks than asked for
    is kept as it is ("keep": full chunks and a shorter last one) or an error ("refuse").
    `min_tokens`: leave out records with a shorter context.
    """

    path: str | None = None
    sha256: str | None = None
    truncation: str = "keep-first"
    short: str = "keep"
    min_tokens: int = 0
    score: str = "f1"
    new_tokens: int | None = None
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "longbench"
    about: ClassVar[str] = "LongBench: multi-document questions; another name reads that JSONL file"
    tasks: ClassVar[tuple[str, ...]] = ("musique", "2wikimqa", "hotpotqa", "2wikimqa_e", "hotpotqa_e")
    open_tasks: ClassVar[bool] = True
    metric: ClassVar[str] = "f1"

    def __post_init__(self) -> None:
        if self.truncation not in POLICIES:
            raise UserError(f"longbench: truncation is {' or '.join(POLICIES)}, not {self.truncation!r}")
        if self.short not in ("keep", "refuse"):
            raise UserError(f'longbench: short is "keep" or "refuse", not {self.short!r}')
        if self.score not in METRICS:
            raise UserError(f"longbench: score is {', '.join(METRICS)}, not {self.score!r}")
        if self.new_tokens is not None and self.new_tokens < 1:
            raise UserError("longbench: new_tokens must be at least 1")
        if self._own and (self.score != "f1" or self.new_tokens is not None):
            raise UserError(
                f"longbench/{self.task}: LongBench fixes score and new_tokens (f1, {MAX_NEW_TOKENS})"
            )

    @property
    def _own(self) -> bool:
        """Whether the task is one of LongBench's, with its template."""
        return self.task in self.tasks

    @property
    def scored_by(self) -> str:
        """Token F1, or `score` where the task is not LongBench's."""
        return self.score

    @property
    def caveat(self) -> str:
        """Says where the task is not LongBench's."""
        return self.note if self._own else "LongBench's schema, not LongBench; generic prompt"

    @property
    def takes_short(self) -> bool:
        """True unless short records are refused."""
        return self.short == "keep"

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Read the first n records that are long enough; raises `UserError` for bad data."""
        source, digest, data = _open(self.path, self.task, self.sha256, self._own)
        before_context, after = (
            (BEFORE_CONTEXT, after_context) if self._own else (GENERIC_BEFORE, generic_after)
        )
        samples: list[Sample] = []
        skipped = short = cut = lost = absent = 0
        for number, record in _records(source, data, self.task, self._own):
            if len(samples) == n:
                break
            full, answers = record["context"], record["answers"]
            tokens = fit.count(full)
            if tokens < self.min_tokens:
                skipped += 1
                continue
            kept = truncate(full, fit, self.truncation, answers) if tokens > fit.tokens else full
            before, still = (any(a in text for a in answers) for text in (full, kept))
            short += tokens < fit.tokens
            cut += tokens > fit.tokens
            lost += before and not still
            absent += not before
            samples.append(
                Sample(
                    id=f"{self.task}-{number}-{record['_id'][:8]}",
                    instruction=before_context,
                    context=kept,
                    query=after(record["input"]),
                    question=record["input"],
                    references=tuple(answers),
                    max_new_tokens=self.new_tokens or MAX_NEW_TOKENS,
                    evidence=tuple(sorted({s for a in answers for s in occurrences(kept, a)})),
                )
            )
        if len(samples) < n:
            raise UserError(f"{source}: {n} records asked for, {len(samples)} there ({skipped} too short)")
        self._facts = {
            "file": source,
            "sha256": digest,
            "sha256_is_the_known_one": digest == SHA256,
            "skipped_short": skipped,
            "share_shorter_than_asked": short / n,
            "share_truncated": cut / n,
            "share_answer_lost": lost / n,
            "share_answer_never_there": absent / n,
        }
        return samples

    def provenance(self) -> dict[str, Any]:
        """The policies; once samples are made, the file's SHA-256 and what the cut cost.

        `share_answer_lost`: samples whose answer string stood in the whole context and does not
        stand in the kept one. `share_answer_never_there`: it did not stand in either.
        """
        policies = {"truncation": self.truncation, "short": self.short, "min_tokens": self.min_tokens}
        return {**policies, **self._facts}


def _open(path: str | None, task: str, sha256: str | None, own: bool) -> tuple[str, str, bytes]:
    """Find the task's lines: (where they are, SHA-256 of that file, the JSONL)."""
    chosen = path or os.environ.get(VARIABLE)
    if chosen is None and not own:
        raise UserError(
            f"longbench/{task}: not one of LongBench's tasks here ({', '.join(LongBench.tasks)}); for a file "
            f"{task}.jsonl of your own give --longbench FOLDER or the option path"
        )
    given = Path(chosen or _download())
    file = given / f"{task}.jsonl" if given.is_dir() else given
    data, digest = datafiles.read(file, "longbench", f"a data.zip or a folder with {task}.jsonl")
    datafiles.require_hash(file, digest, sha256)
    if given.is_dir() or given.suffix == ".jsonl":
        return str(file), digest, data
    try:
        with zipfile.ZipFile(file) as archive:
            members = [m for m in archive.namelist() if m.rpartition("/")[2] == f"{task}.jsonl"]
            if not members:
                raise UserError(f"{file}: no {task}.jsonl inside; LongBench's data.zip has data/{task}.jsonl")
            return f"{file}:{members[0]}", digest, archive.read(members[0])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{file}: not a readable zip file ({error}); download data.zip again") from error


def _download() -> Path:
    try:
        return hub.file(REPOSITORY, "data.zip", REVISION, None, kind="dataset")
    except (hub.NoAnswerError, OSError) as error:
        raise UserError(
            f"longbench: {REPOSITORY} cannot be downloaded ({error}); give the option "
            f"path=data.zip (or a folder with <task>.jsonl), or set {VARIABLE} to it"
        ) from error


def _records(source: str, data: bytes, task: str, own: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Checked records with their line number, from 1."""
    seen: set[str] = set()
    for where, number, record in datafiles.json_lines(data, source):
        check_record(record, task, where, own)
        if record["_id"] in seen:
            raise UserError(f"{where}: the _id {record['_id']!r} is there twice")
        seen.add(record["_id"])
        yield number, record


DATASET = LongBench
