"""What a dataset hands over is looked at once, before anything is tokenised."""

from __future__ import annotations

from collections.abc import Sequence

from bench.dataset import Sample
from bench.errors import UserError

_TEXTS = ("id", "instruction", "context", "query", "answer_prefix")


def check_samples(samples: Sequence[Sample], dataset: str) -> None:
    """Raise `UserError`, one line, for samples no request can be made of.

    Each must have an id of its own, texts that are strings and can be written as UTF-8, a context and a
    query that are not blank, a list of references that is not one string, at least one new token, and
    spans and beginnings of chunks that lie in the context.
    """
    seen: set[str] = set()
    for number, sample in enumerate(samples):
        if not isinstance(sample, Sample):
            raise UserError(f"{dataset}: sample {number} is a {type(sample).__name__}, not a Sample")
        where = f"{dataset}: sample {sample.id}"
        for name in _TEXTS:
            text = getattr(sample, name)
            if not isinstance(text, str):
                raise UserError(f"{where}: {name} is a {type(text).__name__}, not a string")
            if not _encodes(text):
                raise UserError(f"{where}: {name} holds half a surrogate pair; write the data as valid UTF-8")
        for name in ("id", "context", "query"):
            if not getattr(sample, name).strip():
                raise UserError(f"{where}: an empty {name}; leave the record out or mend it")
        if sample.id in seen:
            raise UserError(f"{where}: the id is there twice; rows are told apart by it")
        seen.add(sample.id)
        _check_answers(sample, where)
        if sample.question not in sample.query:
            raise UserError(f"{where}: its question is not part of its query")
        for name, spans in (("evidence", sample.evidence), ("needle", sample.needles)):
            for begin, end in spans:
                if not 0 <= begin < end <= len(sample.context):
                    raise UserError(f"{where}: {name} ({begin}, {end}) is not in its context")
        begins = sample.chunk_begins
        if begins and (
            begins[0] != 0 or [*begins, len(sample.context)] != sorted({*begins, len(sample.context)})
        ):
            raise UserError(f"{where}: chunk_begins must grow from 0 and stay in its context")


def _check_answers(sample: Sample, where: str) -> None:
    references, tokens = sample.references, sample.max_new_tokens
    if isinstance(references, str) or not isinstance(references, Sequence):
        raise UserError(f"{where}: references must be a list of strings, not a {type(references).__name__}")
    if not references or not all(isinstance(r, str) for r in references):
        raise UserError(f"{where}: references must be a list of at least one string")
    if not all(_encodes(r) for r in references):
        raise UserError(f"{where}: a reference holds half a surrogate pair; write the data as valid UTF-8")
    if not isinstance(tokens, int) or tokens < 1:
        raise UserError(f"{where}: max_new_tokens must be at least 1, not {tokens!r}")


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
