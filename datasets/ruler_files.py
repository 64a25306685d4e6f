"""Samples that RULER's own scripts wrote: JSONL of its needle tasks and of variable tracking."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.data import datafiles
from bench.data.ruler_format import NIAH_TOKENS, VT, VT_TOKENS
from bench.data.spans import Spans, occurrences
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError

VARIABLE = "QCBENCH_RULER_FILES"
SUBSET = "validation.jsonl"
"""RULER's scripts write SAVE_DIR/TASK/validation.jsonl."""
_NIAH_BEFORE = re.compile(
    r"(?:Some|A) special magic .{1,40}? (?:are|is) hidden within the following text\. Make sure to memorize"
    r" it\. I will quiz you about the .{1,40}? afterwards\.\n"
)
_NIAH_AFTER = re.compile(r"\nWhat (?:are all|is) the special magic [^\n]*\Z")
_NIAH_NEEDLE = "One of the special magic "
_VT_AFTER = re.compile(
    r"\nQuestion: Find all variables that are ass(?:ig|gi)ned the value (\S+) in the text above\."
)
_VT_LINE = re.compile(r"VAR [A-Z]+ = (?:VAR [A-Z]+|\d+)")


@dataclass
class RulerFiles(Dataset):
    """RULER's needle tasks (niah_*) and variable tracking (vt) out of its own files.

    `ruler_files/niah_multikey_1` reads `niah_multikey_1/validation.jsonl` or `niah_multikey_1.jsonl` of the
    folder given. `input` is taken apart at RULER's template: text before the context (with variable
    tracking's solved example) is the instruction, what stands behind it the query, `answer_prefix` opens
    the answer; RULER's number of new tokens. Records keep the file's order; `seed` changes nothing. The
    context is what it is: RULER fitted it to its own length, so a longer one than the chunks hold is an
    error and a shorter one makes fewer chunks. Files must be prepared with the template "base", without
    chat markup.

    `path`: the file or folder; without it the variable QCBENCH_RULER_FILES. `sha256`: of that file, which
    another one is then refused for. `tokens_to_generate`: instead of 128 (vt: 30).
    """

    path: str | None = None
    sha256: str | None = None
    tokens_to_generate: int | None = None
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    name: ClassVar[str] = "ruler_files"
    about: ClassVar[str] = "RULER's own JSONL (niah_*, vt): another niah_ name reads that file"
    tasks: ClassVar[tuple[str, ...]] = ("niah_single_2", "niah_multiquery", "niah_multivalue", "vt")
    open_tasks: ClassVar[bool] = True
    metric: ClassVar[str] = "string_match"

    def __post_init__(self) -> None:
        if self.task != "vt" and not self.task.startswith("niah_"):
            raise UserError(f"ruler_files/{self.task}: the tasks known here are vt and those named niah_...")
        if self.tokens_to_generate is not None and self.tokens_to_generate < 1:
            raise UserError("ruler_files: tokens_to_generate must be at least 1")

    @property
    def takes_short(self) -> bool:
        """True: the files are as long as RULER made them."""
        return True

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Read the first n records; raises `UserError` for bad data and for a context that is too long."""
        file = _find(self.path, self.task)
        data, digest = datafiles.read(file, "ruler_files", f"RULER's {self.task}.jsonl or a folder with it")
        datafiles.require_hash(file, digest, self.sha256)
        samples: list[Sample] = []
        for where, number, record in datafiles.json_lines(data, str(file)):
            if len(samples) == n:
                break
            sample = self._sample(record, number, where)
            tokens = fit.count(sample.context)
            if tokens > fit.tokens:
                raise UserError(
                    f"{where}: a context of {tokens} tokens, more than the {fit.tokens} of the chunks: ask "
                    "for more or longer chunks, or prepare the file with a smaller max_seq_length"
                )
            samples.append(sample)
        if len(samples) < n:
            raise UserError(f"{file}: {n} records asked for, {len(samples)} there")
        self._facts = {"file": str(file), "sha256": digest}
        return samples

    def provenance(self) -> dict[str, Any]:
        """Once samples are made, the file and its SHA-256."""
        return dict(self._facts)

    def _sample(self, record: dict[str, Any], number: int, where: str) -> Sample:
        text = datafiles.field(record, "input", str, where)
        prefix = datafiles.field(record, "answer_prefix", str, where) if "answer_prefix" in record else ""
        outputs = datafiles.field(record, "outputs", list, where)
        if not outputs or not all(isinstance(o, str) and o.strip() for o in outputs):
            raise UserError(
                f"{where}: field 'outputs' is not a list of at least one string, none of them empty"
            )
        vt = self.task == "vt"
        begin, end, question = _tracking(text, where) if vt else _needle(text, where)
        context = text[begin:end]
        evidence, needles = _spans(context, outputs, vt)
        return Sample(
            id=f"{self.task}-{number}",  # not `index`, which RULER's needle script overwrites
            instruction=text[:begin],
            context=context,
            query=text[end:],
            question=question,
            references=tuple(outputs),
            max_new_tokens=self.tokens_to_generate or (VT_TOKENS if vt else NIAH_TOKENS),
            answer_prefix=prefix,
            evidence=evidence,
            needles=needles,
        )


def _needle(text: str, where: str) -> tuple[int, int, str]:
    """Where the context begins and ends, and the question."""
    before, after = _NIAH_BEFORE.match(text), _NIAH_AFTER.search(text)
    if before is None or after is None:
        raise UserError(_layout(where, "needle"))
    return before.end(), after.start(), after[0].strip()


def _tracking(text: str, where: str) -> tuple[int, int, str]:
    """The same of the last example, the sample's own; the solved one stands before it."""
    begin, found = text.rfind(VT.before), list(_VT_AFTER.finditer(text))
    if not text.startswith(VT.before) or not found or found[-1].start() < begin + len(VT.before):
        raise UserError(_layout(where, "vt"))
    return begin + len(VT.before), found[-1].start(), found[-1][0].strip()


def _layout(where: str, kind: str) -> str:
    return (
        f"{where}: field 'input' is not RULER's {kind} template around a context: another task's file, or "
        'one prepared with a chat template; prepare it with the template "base"'
    )


def _spans(context: str, outputs: list[str], vt: bool) -> tuple[Spans, Spans]:
    """The answers inside the needles (vt: the chain's lines) that hold one, and those needles."""
    whole = [m.span() for m in _VT_LINE.finditer(context)] if vt else list(_sentences(context))
    told = [(b, e, list(_inside(context[b:e], outputs, vt))) for b, e in whole]
    evidence = {(b + x, b + y) for b, _, found in told for x, y in found}
    return tuple(sorted(evidence)), tuple((b, e) for b, e, found in told if found)


def _sentences(context: str) -> Iterator[tuple[int, int]]:
    """RULER's needles: from their first words to the full stop behind the value."""
    for begin, _ in occurrences(context, _NIAH_NEEDLE):
        colon = context.find(": ", begin)
        stop = context.find(".", colon)
        if 0 <= colon < stop:
            yield begin, stop + 1


def _inside(text: str, outputs: list[str], vt: bool) -> Iterator[tuple[int, int]]:
    for output in outputs:
        for match in re.finditer(rf"\b{re.escape(output)}\b", text):
            if vt or match.start() > text.find(": "):
                yield match.span()


def _find(path: str | None, task: str) -> Path:
    given = path or os.environ.get(VARIABLE)
    if given is None:
        raise UserError(
            f"ruler_files: no file given for {task}; give --ruler-files FOLDER (or the option path), or set "
            f"{VARIABLE} to it; ruler/mq, ruler/mv and ruler/vt need no files"
        )
    folder = Path(given)
    if not folder.is_dir():
        return folder
    for file in (folder / task / SUBSET, folder / f"{task}.jsonl"):
        if file.is_file():
            return file
    raise UserError(f"ruler_files: {folder} holds neither {task}/{SUBSET} nor {task}.jsonl")


DATASET = RulerFiles
