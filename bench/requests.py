"""From text to token ids: samples of a dataset become requests for one model's tokenizer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from bench import plugins
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.request import Request

_SENTINEL = "qcbench0user0turn0qcbench"


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
    if task not in cls.tasks:
        names = ", ".join(f"{family}/{t}" if t else family for t in cls.tasks)
        raise UserError(f"unknown task {spec!r}; there are: {names}")
    parameters = [f.name for f in fields(cls) if f.init and f.name != "task"]
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        raise UserError(f"dataset {spec!r} has no parameter {unknown[0]!r}; it has: {', '.join(parameters)}")
    return cls(task=task, **options)


def build_requests(
    dataset_spec: str,
    tokenizer: PreTrainedTokenizerBase,
    chunks: int,
    chunk_tokens: int,
    n: int,
    seed: int,
    options: Mapping[str, Any] = {},
) -> tuple[list[Request], dict[str, Any]]:
    """Make n requests of `chunks` chunks of `chunk_tokens` tokens (the last may be short).

    Prefix, context and query are tokenised once each, apart; chunks are slices of the context's
    ids, so nothing is ever tokenised again. Returns the requests and their provenance (JSON
    values): what the dataset reports, how many evidence spans there are and how many straddle a
    chunk's edge, and the share of chunks whose ids also occur in another request.

    Raises `UserError` for bad numbers, an unknown dataset, a slow tokenizer, and a sample with
    fewer than `chunks` chunks.
    """
    for name, number in (("chunks", chunks), ("chunk_tokens", chunk_tokens), ("n", n)):
        if number < 1:
            raise UserError(f"{name} must be at least 1, not {number}")
    dataset = dataset_of(dataset_spec, options)
    turn = _Turn(tokenizer)
    samples = dataset.samples(turn.fit(chunks * chunk_tokens), n, seed)
    if len(samples) != n:
        raise UserError(f"{dataset_spec}: {n} samples asked for, {len(samples)} there")
    made = [_request(s, dataset_spec, turn, chunks, chunk_tokens) for s in samples]
    requests = [request for request, _ in made]
    return requests, {
        "dataset": dataset_spec,
        "note": dataset.note,
        "options": dict(options),
        "samples": n,
        "seed": seed,
        "chunks": chunks,
        "chunk_tokens": chunk_tokens,
        "context_tokens_mean": sum(r.context_tokens for r in requests) / n,
        "evidence_spans": sum(len(s.evidence) for s in samples),
        "evidence_spans_straddling": sum(straddling for _, straddling in made),
        "chunks_recurring": recurring_share(requests),
        "source": dataset.provenance(),
    }


def recurring_share(requests: list[Request]) -> float:
    """Share of all chunks whose token ids are also a chunk of another request, in [0, 1].

    A content-addressed chunk store serves these from another request's work.
    """
    owners = Counter(chunk for r in requests for chunk in set(r.chunks))
    every = [chunk for r in requests for chunk in r.chunks]
    return sum(owners[chunk] > 1 for chunk in every) / len(every)


def _request(
    sample: Sample, dataset: str, turn: _Turn, chunks: int, chunk_tokens: int
) -> tuple[Request, int]:
    ids, offsets = turn.text(sample.context)
    there = -(-len(ids) // chunk_tokens)
    if there < chunks:
        raise UserError(
            f"{dataset}: more chunks than the sample has: sample {sample.id}, {chunks} chunks of "
            f"{chunk_tokens} tokens asked for, {there} there ({len(ids)} tokens); ask for fewer or shorter"
        )
    if there > chunks:
        raise UserError(
            f"{dataset}: sample {sample.id} has a context of {len(ids)} tokens; "
            f"the dataset must keep it to {chunks} x {chunk_tokens}"
        )
    evidence: set[int] = set()
    straddling = 0
    for begin, end in sample.evidence:
        if not 0 <= begin < end <= len(sample.context):
            raise UserError(f"{dataset}: sample {sample.id}: evidence ({begin}, {end}) is not in its context")
        touched = [t for t, (a, b) in enumerate(offsets) if a < end and b > begin]
        straddling += touched[0] // chunk_tokens != touched[-1] // chunk_tokens
        evidence.update(touched)
    request = Request(
        id=sample.id,
        dataset=dataset,
        prefix=(*turn.before, *turn.ids(sample.instruction)),
        chunks=tuple(tuple(ids[i : i + chunk_tokens]) for i in range(0, len(ids), chunk_tokens)),
        query=(*turn.ids(sample.query), *turn.after, *turn.ids(sample.answer_prefix)),
        references=sample.references,
        max_new_tokens=sample.max_new_tokens,
        evidence=tuple(sorted(evidence)),
    )
    return request, straddling


@dataclass(frozen=True)
class _Turn:
    """The user's turn as the model's chat template writes it, and the tokenizer's other duties.

    The template's own text is tokenised with its special tokens; a dataset's text never is, so
    "<|im_end|>" inside a passage stays text. Templates that can think first are told not to
    (`enable_thinking=False`): the answers are short. Without a template the turn is a BOS token,
    where the tokenizer adds one, and nothing else.
    """

    tokenizer: PreTrainedTokenizerBase

    def __post_init__(self) -> None:
        if not self.tokenizer.is_fast:
            raise UserError(
                f"{type(self.tokenizer).__name__} is a slow tokenizer without character offsets; "
                "use a model with a tokenizer.json"
            )

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Ids before the instruction."""
        if self.tokenizer.chat_template:
            return self._markup(self._halves[0])
        bos = self.tokenizer.bos_token_id
        adds = bos is not None and self.tokenizer("x")["input_ids"][0] == bos
        return (bos,) if adds else ()

    @cached_property
    def after(self) -> tuple[int, ...]:
        """Ids after the query: the end of the turn and the assistant's header."""
        return self._markup(self._halves[1]) if self.tokenizer.chat_template else ()

    def ids(self, text: str) -> list[int]:
        """Ids of a dataset's text."""
        coded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
        return list(coded["input_ids"])

    def text(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of a dataset's text and each token's (begin, end) characters in it."""
        coded = self.tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        return coded["input_ids"], coded["offset_mapping"]

    def fit(self, tokens: int) -> Fit:
        """What a dataset needs to know about lengths."""

        def count(text: str) -> int:
            return len(self.ids(text))

        def cut(text: str, n: int) -> str:
            offsets = self.text(text)[1]
            if n >= len(offsets):
                return text
            # An edge inside a character or a merge can count one more token: then take one less.
            for last in range(n, 0, -1):
                kept = text[: offsets[last - 1][1]]
                if count(kept) <= n:
                    return kept
            return ""

        def tail(text: str, n: int) -> str:
            offsets = self.text(text)[1]
            if n >= len(offsets):
                return text
            for first in range(len(offsets) - n, len(offsets)):
                kept = text[offsets[first][0] :]
                if count(kept) <= n:
                    return kept
            return ""

        return Fit(tokens=tokens, count=count, cut=cut, tail=tail)

    @cached_property
    def _halves(self) -> tuple[str, str]:
        filled = str(
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": _SENTINEL}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        )
        if filled.count(_SENTINEL) != 1:
            raise UserError("the tokenizer's chat template does not hold the user's message exactly once")
        before, after = filled.split(_SENTINEL)
        return before, after

    def _markup(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()
