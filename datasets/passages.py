"""Multi-hop questions over paragraphs, as published: HotpotQA, 2WikiMultihopQA, MuSiQue."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.data import datafiles, passage_files
from bench.data.longbench_format import BEFORE_CONTEXT, MAX_NEW_TOKENS, after_context
from bench.data.passage_files import Paragraph, PassageRecord
from bench.data.spans import occurrences
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError

VARIABLE = "QCBENCH_PASSAGES"
ALIASES = "id_aliases.json"
NAMES = {"hotpotqa": "hotpot*", "2wikimultihopqa": "2wiki*", "musique": "musique*"}
"""What a task's file is called in a folder; 2WikiMultihopQA's own name, dev.json, serves for it too."""

Spans = tuple[tuple[int, int], ...]


@dataclass
class Passages(Dataset):
    """The question, its gold paragraphs and the published distractors; a paragraph is a chunk.

    LongBench's layout ("Passage k:", title, text), prompt and 32 new tokens; records in the file's order;
    `seed` changes nothing. Where a record has more paragraphs than chunks are asked for, the gold ones stay
    and the first distractors beside them, all in the published order: what a retriever that misses
    nothing would hand over. A paragraph longer than a chunk is cut. Records whose gold paragraphs do not
    all find room, that hold none, or (MuSiQue) that are not answerable are left out and counted.

    `path`: a file (formats: `bench.data.passage_files`) or a folder; without it the variable
    QCBENCH_PASSAGES. `sha256`: of that file, which another one is then refused for. `chunking`: "paragraphs",
    or "fixed" for slices of equal length across paragraphs. `evidence`: "facts" (the supporting
    sentences; MuSiQue marks paragraphs), or "answer" (where an answer stands inside them; the facts where it
    does not, as with yes and no). Needles are the facts in either case. Aliases count as references.
    """

    path: str | None = None
    sha256: str | None = None
    chunking: str = "paragraphs"
    evidence: str = "facts"
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "passages"
    about: ClassVar[str] = "multi-hop questions over paragraphs, from the published files"
    tasks: ClassVar[tuple[str, ...]] = tuple(NAMES)
    metric: ClassVar[str] = "f1_hotpotqa"
    note: ClassVar[str] = "paragraphs as published, LongBench's prompt"

    def __post_init__(self) -> None:
        for name, known in (("chunking", ("paragraphs", "fixed")), ("evidence", ("facts", "answer"))):
            if getattr(self, name) not in known:
                raise UserError(f"passages: {name} is {' or '.join(known)}, not {getattr(self, name)!r}")

    @property
    def scored_by(self) -> str:
        """MuSiQue's official F1 has no rule for yes and no."""
        return "f1" if self.task == passage_files.MUSIQUE else self.metric

    @property
    def takes_short(self) -> bool:
        """True: records have the paragraphs they have."""
        return True

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Read the first n records that can be laid out; raises `UserError` for bad data."""
        file = _find(self.path, self.task)
        data, digest = datafiles.read(file, "passages", "a published file or a folder with it")
        datafiles.require_hash(file, digest, self.sha256)
        aliases, source = _aliases(file) if self.task == "2wikimultihopqa" else ({}, None)
        counts: Counter[str] = Counter()
        samples: list[Sample] = []
        for record in passage_files.load(file, data, self.task, aliases):
            if len(samples) == n:
                break
            sample = self._sample(fit, record, counts)
            if sample is not None:
                samples.append(sample)
        skipped = {k: counts[k] for k in ("skipped_unanswerable", "skipped_no_gold", "skipped_gold_too_long")}
        if len(samples) < n:
            left = ", ".join(f"{k} {v}" for k, v in skipped.items())
            raise UserError(f"{file}: {n} records asked for, {len(samples)} usable there ({left})")
        self._facts = {
            "file": str(file),
            "sha256": digest,
            "aliases_sha256": source,
            **skipped,
            "facts_missing": counts["facts_missing"],
            "paragraphs_left_out": counts["left_out"],
            "share_fact_cut": counts["fact_cut"] / n,
            "share_answer_lost": counts["answer_lost"] / n,
            "share_answer_never_there": counts["answer_never_there"] / n,
        }
        return samples

    def provenance(self) -> dict[str, Any]:
        """The choices; once samples are made, the files' SHA-256, what was left out and what a cut cost.

        `share_fact_cut`: samples in which a supporting fact lost its end. `share_answer_lost`: an answer
        stood in the paragraphs kept and does not after their cut. `share_answer_never_there`: nor before
        (yes, no). `facts_missing`: facts that point to no sentence. `aliases_sha256`: 2WikiMultihopQA's
        `id_aliases.json`.
        """
        return {"chunking": self.chunking, "evidence": self.evidence, **self._facts}

    def _sample(self, fit: Fit, record: PassageRecord, counts: Counter[str]) -> Sample | None:
        gold = [i for i, p in enumerate(record.paragraphs) if p.facts]
        if not record.answerable or not gold:
            counts["skipped_no_gold" if record.answerable else "skipped_unanswerable"] += 1
            return None
        apart = self.chunking == "paragraphs" and fit.chunk_tokens > 0
        kept = _first(record, gold, fit) if apart else _fill(record, gold, fit)
        if kept is None:
            counts["skipped_gold_too_long"] += 1
            return None
        counts["left_out"] += len(record.paragraphs) - len(kept)
        counts["facts_missing"] += record.facts_missing
        context, begins, told, cut = "", [], [], False
        for number, i in enumerate(kept, 1):
            paragraph, end = record.paragraphs[i], "\n" if number < len(kept) else ""
            whole = _text(number, paragraph)
            text = _cut(whole, end, fit) if apart else whole + end
            at, room = len(whole) - len(paragraph.text), len(text.removesuffix(end))
            cut |= any(at + e > room for _, e in paragraph.facts)
            spans = [(at + b, min(at + e, room)) for b, e in paragraph.facts if at + b < room]
            told += [(len(context) + b, len(context) + e) for b, e in spans]
            begins.append(len(context))
            context += text
        before = any(a in record.paragraphs[i].text for i in kept for a in record.answers)
        after = any(a in context for a in record.answers)
        counts["fact_cut"] += cut
        counts["answer_lost"] += before and not after
        counts["answer_never_there"] += not (before or after)
        facts = tuple(sorted(told))
        return Sample(
            id=f"{self.task}-{record.id}",
            instruction=BEFORE_CONTEXT,
            context=context,
            query=after_context(record.question),
            question=record.question,
            references=record.answers,
            max_new_tokens=MAX_NEW_TOKENS,
            evidence=(_answers(context, facts, record) or facts) if self.evidence == "answer" else facts,
            needles=facts,
            chunk_begins=tuple(begins) if apart else (),
        )


def _text(number: int, paragraph: Paragraph) -> str:
    return f"Passage {number}:\n{paragraph.title}\n{paragraph.text}"


def _cut(text: str, end: str, fit: Fit) -> str:
    """As much of a passage as one chunk holds with its end."""
    for tokens in range(fit.chunk_tokens, 0, -1):
        kept = fit.cut(text, tokens) + end
        if fit.count(kept) <= fit.chunk_tokens:
            return kept
    raise UserError(f"passages: chunks of {fit.chunk_tokens} tokens hold no passage; ask for longer ones")


def _first(record: PassageRecord, gold: list[int], fit: Fit) -> list[int] | None:
    """The gold paragraphs and the first others, one a chunk; None where the gold ones are too many."""
    room = fit.tokens // fit.chunk_tokens - len(gold)
    others = [i for i in range(len(record.paragraphs)) if i not in gold]
    return sorted(gold + others[:room]) if room >= 0 else None


def _fill(record: PassageRecord, gold: list[int], fit: Fit) -> list[int] | None:
    """The gold paragraphs and the first others that fit whole; None where the gold ones do not."""

    def tokens(kept: list[int]) -> int:
        return fit.count("\n".join(_text(k, record.paragraphs[i]) for k, i in enumerate(kept, 1)))

    kept = gold
    if tokens(kept) > fit.tokens:
        return None
    for i in range(len(record.paragraphs)):
        if i not in gold:
            more = sorted([*kept, i])
            if tokens(more) > fit.tokens:
                break
            kept = more
    return kept


def _answers(context: str, facts: Spans, record: PassageRecord) -> Spans:
    """Where an answer stands inside the facts; nothing for yes and no, which stand there by chance."""
    if {a.lower() for a in record.answers} <= {"yes", "no"}:
        return ()
    found = {
        (begin + b, begin + e)
        for begin, end in facts
        for answer in record.answers
        for b, e in occurrences(context[begin:end], answer)
    }
    return tuple(sorted(found))


def _find(path: str | None, task: str) -> Path:
    given = path or os.environ.get(VARIABLE)
    if given is None:
        raise UserError(
            f"passages: no file given for {task}; download it, then give --passages FILE (or the option "
            f"path), or set {VARIABLE} to it (formats: qcbench datasets passages)"
        )
    file = Path(given)
    if not file.is_dir():
        return file
    names = [NAMES[task], *(["dev*"] if task == "2wikimultihopqa" else [])]
    for name in names:
        found = sorted(p for s in ("json", "jsonl", "json.gz", "jsonl.gz") for p in file.glob(f"{name}.{s}"))
        if len(found) == 1:
            return found[0]
        if found:
            told = ", ".join(p.name for p in found)
            raise UserError(
                f"passages: {file} holds {len(found)} files for {task} ({told}); name one of them"
            )
    raise UserError(f"passages: {file} holds no file {' or '.join(names)} (.json, .jsonl, .gz) for {task}")


def _aliases(file: Path) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """2WikiMultihopQA's other names of answers and their file's SHA-256, where it lies beside `file`."""
    beside = file.parent / ALIASES
    if not beside.is_file():
        return {}, None
    data, digest = datafiles.read(beside, "passages", "2WikiMultihopQA's aliases")
    return passage_files.read_aliases(beside, data), digest


DATASET = Passages
