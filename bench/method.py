"""The method adapter: what a file in `methods/` defines, and all it may use.

A method says *which* context positions are recomputed. Budgets, positions, masks, timing, scoring
and plotting are the harness's. `view` is a method's only way to the caches, and it is metered:
whatever a selector looks at before recomputation starts is loaded, timed and counted there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch

from bench.kernels.attention_mass import Reduce
from bench.kv import KV, States
from bench.request import Request

__all__ = ["KV", "Chunk", "Method", "Request", "States", "View", "per_chunk", "top"]


class View(Protocol):
    """The metered view of one request's caches. Positions are context positions, 0..N-1."""

    layers: int
    """L, the number of layers."""
    profile: Sequence[float]
    """The method's own `profile`, averaged over the calibration requests; empty without one."""

    def probe(
        self, context: str | None, last_layer: int | None = None, fetch: Sequence[int] = ()
    ) -> States:
        """Run the user query U over a context cache, up to and including `last_layer`.

        `context` is "all" (the whole stitched cache), the name of a position set from `prepare`, or
        None (no retrieved context). The instruction S is always visible, U keeps its positions
        after the full context. Loads keys and values of what is visible, layer by layer; in parallel
        come the context keys of the layers in `fetch`, for `attention` afterwards.
        """

    def attention(
        self, states: States, layer: int, *, heads: Reduce = "mean", tokens: Reduce = "mean",
        softmax: Literal["global", "chunk"] = "global",
    ) -> torch.Tensor:  # fmt: skip
        """Attention mass [N] each context position gets from U at a layer. Loads that layer's keys."""

    def keys(self, layer: int) -> torch.Tensor:
        """Stitched context keys at a layer, [N, Hkv, D], after Pi. Loads them."""

    def values(self, layer: int) -> torch.Tensor:
        """Stitched context values at a layer, [N, Hkv, D]. Loads them."""


class Chunk(Protocol):
    """A chunk during offline preparation."""

    @property
    def ids(self) -> Sequence[int]:
        """The chunk's token ids."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""

    def ask(self, query: Sequence[int]) -> View:
        """A view of this chunk alone as the context, with `query` as the user query."""


@dataclass
class Method:
    """A cache-fusion method. Fields of the dataclass are its parameters.

    A file in `methods/` (or a user's own) defines one subclass and names it `METHOD`; the first line
    of its docstring is what `qcbench methods` shows.
    """

    uses_cache: ClassVar[bool] = True
    """False for full prefill: no cached chunk is read."""
    rho: ClassVar[float | None] = None
    """A fixed recomputation ratio; None where rho is swept."""

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Choose the context positions P to recompute, [budget] int64 in any order (eq. 11)."""
        raise NotImplementedError(f"{type(self).__name__} has no select()")

    def narrow(
        self, layer: int, fresh: KV, cached: KV, positions: torch.Tensor, budget: int
    ) -> torch.Tensor | None:
        """Shrink P while layer `layer` is fused; None keeps all. Called at each layer.

        `fresh` and `cached` are the recomputed and the stitched keys (after RoPE) and values of
        `positions` [n]. All of them leave fresh keys and values at this layer; the positions returned go
        on with its attention and with the next layers.
        """
        return None

    def prepare(self, chunk: Chunk) -> dict[str, torch.Tensor]:
        """Offline, once a chunk: named sets of chunk-local positions. Their keys and values are
        packed apart, so that probing over a set costs its own bytes."""
        return {}

    def profile(self, request: Request, view: View) -> Sequence[float]:
        """Offline, once a model: figures of merit on one calibration request (with `evidence`)."""
        return []

    def skip(self, request: Request) -> str | None:
        """Why this method cannot run this request, or None."""
        return None


def top(scores: torch.Tensor | Sequence[float], k: int) -> torch.Tensor:
    """Positions of the k highest scores, ties to the earlier position; [k] int64, best first."""
    scores = torch.as_tensor(scores)
    return scores.argsort(descending=True, stable=True)[:k]


def per_chunk(request: Request, budget: int) -> list[int]:
    """Share a budget among the chunks in proportion to their lengths, exactly (largest remainder)."""
    n = request.context_tokens
    shares = [budget * len(c) // n for c in request.chunks]
    rests = [budget * len(c) % n for c in request.chunks]
    for i in sorted(range(len(shares)), key=lambda i: (-rests[i], i))[: budget - sum(shares)]:
        shares[i] += 1
    return shares
