"""From text to token ids: samples of a dataset become requests for one model's tokenizer."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError
from transformers import PreTrainedTokenizerBase

from bench import plugins
from bench.data.samples import check_samples
from bench.data.turn import Turn
from bench.dataset import Dataset, Sample
from bench.errors import UserError
from bench.request import Request


def dataset_of(spec: str, options: Mapping[str, Any] = {}) -> Dataset:
    """Make the dataset of a task: "family/task", "family", or a user's file "./mine.py[/task]".

    `options` are the dataset's parameters. Raises `UserError`, naming what is known, for an
    unknown family, task or parameter and for a file that is missing or defines no `DATASET`.
    """
    path = re.fullmatch(r"(.*\.py)(?:/(.*))?", spec)
    if path:
        family, task = path[1], path[2] or ""
        if not Path(family).is_file():
            raise UserError(f"dataset {spec!r}: no file {family}")
    else:
        family, _, task = spec.partition("/")
        known = plugins.available("datasets")
        if family not in known:
            raise UserError(f"unknown dataset {family!r}; there are: {', '.join(known)}")
    cls = getattr(plugins.load_checked("datasets", family), "DATASET", None)
    if not (isinstance(cls, type) and issubclass(cls, Dataset)):
        where = family if path else f"datasets/{family}.py"
        raise UserError(f"{where}: DATASET must name a subclass of bench.dataset.Dataset")
    if task not in cls.tasks and not (cls.open_tasks and re.fullmatch(r"[\w.-]+", task)):
        names = ", ".join(f"{family}/{t}" if t else family for t in cls.tasks)
        raise UserError(f"unknown task {spec!r}; there are: {names}")
    parameters = [f.name for f in fields(cls) if f.init and f.name != "task"]
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        raise UserError(f"dataset {spec!r} has no parameter {unknown[0]!r}; it has: {', '.join(parameters)}")
    return cls(task=task, **{name: _typed(cls, spec, name, value) for name, value in options.items()})


def _typed(cls: type[Dataset], spec: str, name: str, value: Any) -> Any:
    """An option's value, of the type its field has. Raises `UserError` where it cannot be that."""
    hint = get_type_hints(cls)[name]
    try:
        return TypeAdapter(hint).validate_python(value)
    except PydanticSchemaGenerationError:  # a type pydantic does not know: the dataset's own affair
        return value
    except ValidationError as error:
        raise UserError(f"dataset {spec!r}: {name}: {error.errors()[0]['msg']}, not {value!r}") from error


def build_requests(
    dataset_spec: str,
    tokenizer: PreTrainedTokenizerBase,
    chunks: int,
    chunk_tokens: int,
    n: int,
    seed: int,
    options: Mapping[str, Any] = {},
    label: str = "",
) -> tuple[list[Request], dict[str, Any]]:
    """Make n requests of `chunks` chunks of `chunk_tokens` tokens (the last may be short).

    Prefix, context and query are tokenised once each, apart; chunks are slices of the context's
    ids, so nothing is ever tokenised again (a sample that says where its chunks begin has each of them
    tokenised apart). Returns the requests and their provenance (JSON
    values): what lengths came out, what the chunks share, how many spans an edge cuts,
    and what the dataset reports. `label` is what rows call the dataset (default: as it is written).

    Raises `UserError` for bad numbers, an unknown dataset, a slow tokenizer, a sample that is not
    well-formed (`bench.data.samples`), and one with fewer than `chunks` chunks where the dataset does not
    take short contexts.
    """
    for name, number in (("chunks", chunks), ("chunk_tokens", chunk_tokens), ("n", n)):
        if number < 1:
            raise UserError(f"{name} must be at least 1, not {number}")
    dataset = dataset_of(dataset_spec, options)
    turn = Turn(tokenizer)
    samples = dataset.samples(turn.fit(chunks * chunk_tokens, chunk_tokens), n, seed)
    if len(samples) != n:
        raise UserError(f"{dataset_spec}: {n} samples asked for, {len(samples)} there")
    check_samples(samples, dataset_spec)
    made = [
        _request(s, label or dataset_spec, turn, chunks, chunk_tokens, dataset.takes_short) for s in samples
    ]
    requests = [request for request, _ in made]
    return requests, {
        "dataset": dataset_spec,
        "note": dataset.caveat,
        "options": dict(options),
        "samples": n,
        "seed": seed,
        "chunks": chunks,
        "chunk_tokens": chunk_tokens,
        **_shape(requests, chunks),
        **{name: sum(cut[name] for _, cut in made) for name in made[0][1]},
        "source": dataset.provenance(),
    }


def _shape(requests: list[Request], chunks: int) -> dict[str, Any]:
    """What lengths came out and how far requests share chunks.

    `requests_short`: requests with fewer chunks than asked for. `chunks_recurring`: see
    `recurring_share`; it says what share of a warm store's hits come from other requests.
    """
    tokens = [r.context_tokens for r in requests]
    return {
        "context_tokens_mean": sum(tokens) / len(tokens),
        "context_tokens_min": min(tokens),
        "requests_short": sum(len(r.chunks) < chunks for r in requests),
        "chunks_min": min(len(r.chunks) for r in requests),
        "chunks_total": sum(len(r.chunks) for r in requests),
        "chunks_distinct": len({chunk for r in requests for chunk in r.chunks}),
        "chunks_recurring": recurring_share(requests),
    }


def recurring_share(requests: list[Request]) -> float:
    """Share of all chunks whose token ids are also a chunk of another request, in [0, 1].

    A content-addressed chunk store serves these from another request's work.
    """
    owners = Counter(chunk for r in requests for chunk in set(r.chunks))
    every = [chunk for r in requests for chunk in r.chunks]
    return sum(owners[chunk] > 1 for chunk in every) / len(every)


def _request(
    sample: Sample, dataset: str, turn: Turn, chunks: int, chunk_tokens: int, takes_short: bool = False
) -> tuple[Request, dict[str, int]]:
    """The request of a sample, and how many of its spans there are and straddle a chunk's edge."""
    pieces, offsets = _pieces(sample, turn, chunk_tokens)
    ids, there = [t for piece in pieces for t in piece], len(pieces)
    if max(map(len, pieces)) > chunk_tokens:
        raise UserError(
            f"{dataset}: sample {sample.id} has a chunk of {max(map(len, pieces))} tokens; "
            f"the dataset must keep each to {chunk_tokens}"
        )
    if there < chunks and not takes_short:
        raise UserError(
            f"{dataset}: more chunks than the sample has: sample {sample.id}, {chunks} chunks of "
            f"{chunk_tokens} tokens asked for, {there} there ({len(ids)} tokens); ask for fewer or shorter"
        )
    if there > chunks:
        raise UserError(
            f"{dataset}: sample {sample.id} has a context of {len(ids)} tokens; "
            f"the dataset must keep it to {chunks} x {chunk_tokens}"
        )
    tokens = _Tokens(offsets)
    evidence = [tokens.touched(begin, end) for begin, end in sample.evidence]
    needles = [tokens.touched(begin, end) for begin, end in sample.needles]
    query, at = turn.text(sample.query)
    asked = sample.query.find(sample.question)
    question = _Tokens(at).touched(asked, asked + len(sample.question)) if sample.question else range(0)
    request = Request(
        id=sample.id,
        dataset=dataset,
        prefix=(*turn.before, *turn.ids(sample.instruction)),
        chunks=pieces,
        query=(*query, *turn.after, *turn.ids(sample.answer_prefix)),
        references=tuple(sample.references),
        max_new_tokens=sample.max_new_tokens,
        evidence=tuple(sorted({t for span in evidence for t in span})),
        needles=tuple(sorted({t for span in needles for t in span})),
        question=(question.start, question.stop) if question else (0, 0),
    )
    return request, {
        "evidence_spans": len(evidence),
        "evidence_spans_straddling": _straddling(evidence, request.chunk_starts),
        "needles": len(needles),
        "needles_straddling": _straddling(needles, request.chunk_starts),
    }


def _pieces(
    sample: Sample, turn: Turn, chunk_tokens: int
) -> tuple[tuple[tuple[int, ...], ...], list[tuple[int, int]]]:
    """The chunks' ids, and each context token's (begin, end) characters in the context."""
    if not sample.chunk_begins:
        ids, offsets = turn.text(sample.context)
        cuts = range(0, len(ids), chunk_tokens)
        return tuple(tuple(ids[i : i + chunk_tokens]) for i in cuts), offsets
    pieces, offsets = [], []
    for begin, end in pairwise([*sample.chunk_begins, len(sample.context)]):
        ids, inside = turn.text(sample.context[begin:end])
        pieces.append(tuple(ids))
        offsets += [(begin + a, begin + b) for a, b in inside]
    return tuple(pieces), offsets


class _Tokens:
    """Which tokens of a text a span of characters touches.

    `offsets`: each token's (begin, end) characters. They do not decrease; several tokens have the same
    ones where a character is more than one token.
    """

    def __init__(self, offsets: list[tuple[int, int]]) -> None:
        self._begins = [begin for begin, _ in offsets]
        self._ends = [end for _, end in offsets]

    def touched(self, begin: int, end: int) -> range:
        """Tokens with a character in [begin, end)."""
        return range(bisect_right(self._ends, begin), bisect_left(self._begins, end))


def _straddling(spans: list[range], starts: Sequence[int]) -> int:
    """How many spans of tokens begin in one chunk and end in another; `starts`: the chunks' first tokens."""
    return sum(len(s) > 0 and bisect_right(starts, s[0]) != bisect_right(starts, s[-1]) for s in spans)
