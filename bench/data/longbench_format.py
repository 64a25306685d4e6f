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


FIELDS = ("input", "context", "answers", "length", "dataset", "language", "all_classes", "_id")


def check_record(record: dict[str, Any], task: str, where: str) -> None:
    """Raise `UserError`, naming the field, for a record that is not LongBench's (its README, "Data format").

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
    missing = [name for name in FIELDS if name not in record]
    if missing:
        raise UserError(f"{where}: field {missing[0]!r} is missing; LongBench has {', '.join(FIELDS)}")
    kinds: dict[str, type] = {"input": str, "context": str, "_id": str, "dataset": str, "language": str}
    for name, kind in (kinds | {"answers": list, "length": int}).items():
        field(record, name, kind, where)
    answers = record["answers"]
    if not (answers and all(isinstance(a, str) and a.strip() for a in answers)):
        raise UserError(f"{where}: field 'answers' is not a list of at least one string, none of them empty")
    if record["dataset"] != task:
        raise UserError(
            f"{where}: field 'dataset' is {record['dataset']!r}, not {task!r}: another task's file"
        )
    for name in ("input", "_id"):
        if not record[name].strip():
            raise UserError(f"{where}: field {name!r} is empty")
    if not record["context"].startswith("Passage 1:"):
        raise UserError(f"{where}: the context does not start with 'Passage 1:'; not LongBench's layout")
