"""LongBench's prompt for multi-document question answering.

THUDM/LongBench (commit 2e00731), LongBench/config/dataset2prompt.json and dataset2maxlen.json:
musique, 2wikimqa and hotpotqa share one template and 32 new tokens.
"""

from __future__ import annotations

INSTRUCTION = (
    "Answer the question based on the given passages. "
    "Only give me the answer and do not output any other words."
)
BEFORE_CONTEXT = f"{INSTRUCTION}\n\nThe following are given passages.\n"
MAX_NEW_TOKENS = 32


def after_context(question: str) -> str:
    """Everything behind the passages: the instruction again, the question, the answer cue."""
    return f"\n\n{INSTRUCTION}\n\nQuestion: {question}\nAnswer:"
