"""LongBench's multi-document question answering: MuSiQue, 2WikiMultihopQA, HotpotQA."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.longbench_format import BEFORE_CONTEXT, INSTRUCTION, MAX_NEW_TOKENS, after_context

FIELDS = ("input", "context", "answers", "length", "dataset", "language", "all_classes", "_id")
REPOSITORY = "zai-org/LongBench"
REVISION = "5e628be450b7e67fb7ae6e201bd6d8f7056f7672"
VARIABLE = "QCBENCH_LONGBENCH"


@dataclass
class LongBench(Dataset):
    """LongBench v1 (THUDM/LongBench), official prompt, 32 new tokens, token F1.

    The instruction up to "passages.\\n" is the prefix, the record's `context` is what is chunked,
    the instruction repeated, the question and "Answer:" are the query. Records are taken in the
    file's order; `seed` changes nothing.

    `path`: a `data.zip` or a folder with `<task>.jsonl`; without it the variable
    QCBENCH_LONGBENCH, then the hub. `truncation`: what stays of a context that is too long:
    "keep-first", its first `fit.tokens` tokens, or "middle", its first and last half (LongBench's
    pred.py does so to the whole prompt). `min_tokens`: leave out records with a shorter context,
    such as those that cannot fill every chunk.
    """

    path: str | None = None
    truncation: str = "keep-first"
    min_tokens: int = 0
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "longbench"
    about: ClassVar[str] = "LongBench: multi-document questions (musique, 2wikimqa, hotpotqa)"
    tasks: ClassVar[tuple[str, ...]] = ("musique", "2wikimqa", "hotpotqa")
    metric: ClassVar[str] = "f1"

    def __post_init__(self) -> None:
        if self.truncation not in ("keep-first", "middle"):
            raise UserError(f'longbench: truncation is "keep-first" or "middle", not {self.truncation!r}')

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Read the first n records that are long enough; raises `UserError` for bad data."""
        source, digest, lines = _open(self.path, self.task)
        samples: list[Sample] = []
        skipped = cut = lost = absent = 0
        for number, record in _records(source, lines):
            if len(samples) == n:
                break
            full, answers = record["context"], record["answers"]
            tokens = fit.count(full)
            if tokens < self.min_tokens:
                skipped += 1
                continue
            kept = self._truncate(full, fit) if tokens > fit.tokens else full
            before, after = (any(a and a in text for a in answers) for text in (full, kept))
            cut += tokens > fit.tokens
            lost += before and not after
            absent += not before
            samples.append(
                Sample(
                    id=f"{self.task}-{number}-{record['_id'][:8]}",
                    instruction=BEFORE_CONTEXT,
                    context=kept,
                    query=after_context(record["input"]),
                    references=tuple(answers),
                    max_new_tokens=MAX_NEW_TOKENS,
                    evidence=tuple(sorted({s for a in answers for s in _occurrences(kept, a)})),
                )
            )
        if len(samples) < n:
            raise UserError(f"{source}: {n} records asked for, {len(samples)} there ({skipped} too short)")
        self._facts = {
            "file": source,
            "sha256": digest,
            "skipped_short": skipped,
            "share_truncated": cut / n,
            "share_answer_lost": lost / n,
            "share_answer_never_there": absent / n,
        }
        return samples

    def provenance(self) -> dict[str, Any]:
        """The truncation policy; once samples are made, the file's SHA-256 and what the cut cost.

        `share_answer_lost`: samples whose answer string stood in the whole context and does not
        stand in the kept one. `share_answer_never_there`: it did not stand in either.
        """
        return {"truncation": self.truncation, "min_tokens": self.min_tokens, **self._facts}

    def _truncate(self, context: str, fit: Fit) -> str:
        if self.truncation == "keep-first":
            return fit.cut(context, fit.tokens)
        half = fit.tokens // 2
        first = fit.cut(context, half)
        for last in range(half, 0, -1):  # the seam may split a merge and cost a token or two
            kept = first + fit.tail(context, last)
            if fit.count(kept) <= fit.tokens:
                return kept
        return first


def _open(path: str | None, task: str) -> tuple[str, str, list[bytes]]:
    """Find the task's lines: (where they are, SHA-256 of that file, lines)."""
    given = Path(path or os.environ.get(VARIABLE) or _download())
    file = given / f"{task}.jsonl" if given.is_dir() else given
    if not file.is_file():
        raise UserError(f"longbench: no file {file}; path is a data.zip or a folder with {task}.jsonl")
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if given.is_dir():
        return str(file), digest, data.splitlines()
    try:
        with zipfile.ZipFile(file) as archive:
            members = [m for m in archive.namelist() if m.rpartition("/")[2] == f"{task}.jsonl"]
            if not members:
                raise UserError(f"{file}: no {task}.jsonl inside; LongBench's data.zip has data/{task}.jsonl")
            return f"{file}:{members[0]}", digest, archive.read(members[0]).splitlines()
    except zipfile.BadZipFile as error:
        raise UserError(f"{file}: not a readable zip file ({error}); download data.zip again") from error


def _download() -> str:
    import httpx
    from huggingface_hub import constants, get_session, hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(REPOSITORY, "data.zip", repo_type="dataset", revision=REVISION)
    if isinstance(cached, str):
        return cached
    try:
        get_session().head(constants.ENDPOINT, timeout=5)  # offline, the download would retry for 20 s
        return hf_hub_download(REPOSITORY, "data.zip", repo_type="dataset", revision=REVISION, etag_timeout=5)
    except (OSError, httpx.HTTPError) as error:  # the hub's own errors are among these
        raise UserError(
            f"longbench: {REPOSITORY} cannot be downloaded ({type(error).__name__}); give the option "
            f"path=data.zip (or a folder with <task>.jsonl), or set {VARIABLE} to it"
        ) from error


def _records(source: str, lines: list[bytes]) -> Iterable[tuple[int, dict[str, Any]]]:
    """Checked records with their line number, from 1."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:  # bad JSON and bad UTF-8
            raise UserError(f"{where}: not JSON ({error})") from error
        if not isinstance(record, dict):
            raise UserError(f"{where}: not a JSON object")
        missing = [name for name in FIELDS if name not in record]
        if missing:
            raise UserError(f"{where}: field {missing[0]!r} is missing; LongBench has {', '.join(FIELDS)}")
        wrong = [name for name in ("input", "context", "_id") if not isinstance(record[name], str)]
        if wrong:
            raise UserError(f"{where}: field {wrong[0]!r} is not a string")
        answers = record["answers"]
        if not (isinstance(answers, list) and answers and all(isinstance(a, str) for a in answers)):
            raise UserError(f"{where}: field 'answers' is not a list of at least one string")
        if INSTRUCTION in record["context"]:
            raise UserError(
                f"{where}: the context already holds the instruction: a mirror with filled-in prompts "
                f"(such as Xnhyacinth/LongBench), not LongBench; use data.zip of {REPOSITORY}"
            )
        if not record["context"].startswith("Passage 1:"):
            raise UserError(f"{where}: the context does not start with 'Passage 1:'; not LongBench's layout")
        yield number, record


def _occurrences(text: str, answer: str) -> Iterable[tuple[int, int]]:
    at = text.find(answer) if answer else -1
    while at >= 0:
        yield at, at + len(answer)
        at = text.find(answer, at + 1)


DATASET = LongBench
