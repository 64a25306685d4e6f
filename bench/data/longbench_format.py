"""LongBench's prompt for multi-document question answering.

THUDM/LongBench (commit 2e00731), LongBench/config/dataset2prompt.json and dataset2maxlen.json:
musique, 2wikimqa and hotpotqa share one template and 32 new tokens.
"""

from __future__ import annotations

from typing import Any

from bench.data.datafiles import field
from bench.errors import UserError

INSTRUCTION = (
    "Answer the question based on the given passages. "
    "Only give me the answer and do not output any other words."
)
BEFORE_CONTEXT = f"{INSTRUCTION}\n\nThe following are given passages.\n"
MAX_NEW_TOKENS = 32


def after_context(question: str) -> str:
    """Everything behind the passages: the instruction again, the question, the answer cue."""
    return f"\n\n{INSTRUCTION}\n\nQuestion: {question}\nAnswer:"


GENERIC = (
    "Answer the question based on the given text. Only give me the answer and do not output any other words."
)
"""Ours, for files whose task LongBench has no multi-document template for: the same prompt over "text"."""
GENERIC_BEFORE = f"{GENERIC}\n\nThe following is the given text.\n"


def generic_after(question: str) -> str:
    """Everything behind the text of a task that is not LongBench's."""
    return f"\n\n{GENERIC}\n\nQuestion: {question}\nAnswer:"


FIELDS = ("input", "context", "answers", "length", "dataset", "language", "all_classes", "_id")


NEEDED = ("input", "context", "answers", "_id")
"""What a file of LongBench's schema must have where it is none of LongBench's own."""


def check_record(record: dict[str, Any], task: str, where: str, own: bool = True) -> None:
    """Raise `UserError`, naming the field, for a record that is not LongBench's (its README, "Data format").

    LongBench-E's tasks ("hotpotqa_e") may name the task in `dataset` with or without "_e". `own`: False for
    another task's file in the same schema, of which `NEEDED` alone is asked, in any layout.

    A mirror whose `context` already holds the prompt (Xnhyacinth/LongBench, as NVIDIA/kvpress's
    create_huggingface_dataset.py writes it) is refused and not unwrapped: what it changed besides
    (52 new tokens for 32) would have to be guessed.
    """
    context = record.get("context")
    if "answer_prefix" in record or (isinstance(context, str) and INSTRUCTION in context):
        raise UserError(
            f"{where}: the context already holds the instruction: a mirror with filled-in prompts "
            "(such as Xnhyacinth/LongBench), not LongBench; use data.zip of zai-org/LongBench"
        )
    needed = FIELDS if own else NEEDED
    missing = [name for name in needed if name not in record]
    if missing:
        raise UserError(f"{where}: field {missing[0]!r} is missing; LongBench has {', '.join(needed)}")
    kinds: dict[str, type] = {"input": str, "context": str, "_id": str, "answers": list}
    for name, kind in (kinds | ({"dataset": str, "language": str, "length": int} if own else {})).items():
        field(record, name, kind, where)
    answers = record["answers"]
    if not (answers and all(isinstance(a, str) and a.strip() for a in answers)):
        raise UserError(f"{where}: field 'answers' is not a list of at least one string, none of them empty")
    if own and record["dataset"] not in (task, task.removesuffix("_e")):
        raise UserError(
            f"{where}: field 'dataset' is {record['dataset']!r}, not {task!r}: another task's file"
        )
    for name in ("input", "_id"):
        if not record[name].strip():
            raise UserError(f"{where}: field {name!r} is empty")
    if own and not record["context"].startswith("Passage 1:"):
        raise UserError(f"{where}: the context does not start with 'Passage 1:'; not LongBench's layout")
