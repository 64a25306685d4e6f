"""What a page shows of a run's first requests: their prompts, and what each cell recomputed of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from bench.request import Request
from bench.results.conditions import instruction_cached
from bench.results.packed import content, kept
from bench.results.reader import read_run_info

log = logging.getLogger(__name__)

LONG = 0.25
"""An instruction is worth a word where it is longer than this share of the context."""
CONTEXT = 4
"""Tokens before a token that are decoded with it."""
PROMPTS, SELECTIONS = "prompts.jsonl", "selections.jsonl"


class Prompt(BaseModel):
    """A line of `prompts.jsonl`: a request [S; C; U] as texts of its tokens, which concatenate to the prompt.

    A token that ends inside a character of several bytes has an empty text, the one that completes it
    the character. `chunk_starts` and `evidence` are context positions.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    dataset: str
    request: str
    instruction: list[str]
    context: list[str]
    query: list[str]
    chunk_starts: list[int]
    evidence: list[int] = []
    references: list[str] = []


class LayerPositions(BaseModel):
    """Layers first..last recomputed the same context positions, as ranges: "3-7,12"."""

    model_config = ConfigDict(extra="forbid")

    first: int
    last: int
    positions: str

    def numbers(self) -> list[int]:
        """The positions, in order."""
        found: list[int] = []
        for run in filter(None, self.positions.split(",")):
            begin, _, end = run.partition("-")
            found += range(int(begin), int(end or begin) + 1)
        return found


class Selection(BaseModel):
    """A line of `selections.jsonl`: which context positions a cell recomputed of a request."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    model: str
    dataset: str
    method: str
    params: dict[str, Any] = {}
    rho: float
    bandwidth: str = "none"
    request: str
    layers: list[LayerPositions]


def prompt_of(request: Request, model: str, tokenizer: Any) -> Prompt:
    """The prompt of a request as `tokenizer` reads it."""
    texts = token_texts(request.ids, tokenizer)
    begin, end = len(request.prefix), len(request.prefix) + request.context_tokens
    return Prompt(
        model=model, dataset=request.dataset, request=request.id,
        instruction=texts[:begin], context=texts[begin:end], query=texts[end:],
        chunk_starts=list(request.chunk_starts), evidence=list(request.evidence),
        references=list(request.references),
    )  # fmt: skip


def token_texts(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """Each token's share of the decoded text.

    A token is decoded behind a few that came before it: alone, many tokenizers strip its leading space.
    """
    texts: list[str] = []
    done = 0  # tokens whose text is complete
    for at in range(len(ids)):
        before = ids[max(0, done - CONTEXT) : done]
        known, more = (
            tokenizer.decode(some, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for some in ([*before], [*before, *ids[done : at + 1]])
        )
        # a character has four bytes at most; until its last one comes the text ends in a replacement
        whole = not more.endswith("\ufffd") or at + 1 - done == 4
        texts.append(more[len(known) :] if whole else "")
        done = at + 1 if whole else done
    return texts


def layers_of(positions: Sequence[torch.Tensor]) -> list[LayerPositions]:
    """From each layer's sorted context positions; neighbouring layers with the same ones share an item."""
    written = [_ranges(at.tolist()) for at in positions]
    found: list[LayerPositions] = []
    layer = 0
    for text, same in groupby(written):
        count = len(list(same))
        found.append(LayerPositions(first=layer, last=layer + count - 1, positions=text))
        layer += count
    return found


def _ranges(positions: list[int]) -> str:
    runs: list[list[int]] = []
    for at in positions:
        if runs and at == runs[-1][1] + 1:
            runs[-1][1] = at
        else:
            runs.append([at, at])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def read_prompts(run: Path) -> list[Prompt]:
    """The prompts a run kept, the last of each request; none where it kept none."""
    found = {(p.model, p.dataset, p.request): p for p in _read(run / PROMPTS, Prompt)}
    return list(found.values())


def long_instructions(run: Path) -> dict[str, str]:
    """A caveat for each dataset whose instruction is long beside its context, from the prompts a run kept.

    None where full prefill has the instruction cached too.
    """
    if instruction_cached(read_run_info(run)):
        return {}
    shares: dict[str, list[float]] = {}
    for prompt in read_prompts(run):
        shares.setdefault(prompt.dataset, []).append(len(prompt.instruction) / max(1, len(prompt.context)))
    means = {dataset: sum(some) / len(some) for dataset, some in shares.items()}
    return {
        dataset: f"its instruction is {share:.0%} as long as its context. Every method but full prefill "
        "takes it from the cache, so that speed-ups here are partly those of prefix caching"
        for dataset, share in means.items()
        if share > LONG
    }


def read_selections(run: Path) -> list[Selection]:
    """The selections a run kept, the last of each cell's request."""
    found = {(s.cell, s.model, s.dataset, s.request): s for s in _read(run / SELECTIONS, Selection)}
    return list(found.values())


_Line = TypeVar("_Line", Prompt, Selection)


def _read(path: Path, kind: type[_Line]) -> list[_Line]:
    there = kept(path)
    if there is None:
        return []
    found = []
    for number, line in enumerate(content(there).splitlines(), 1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError:  # cut short by a kill; the page shows this request without it
            log.warning("%s:%d: not a %s, left out", there, number, kind.__name__.lower())
    return found
