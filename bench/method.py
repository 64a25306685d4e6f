"""The method adapter: what a file in `methods/` defines, and all it may use.

A method says *which* context positions are recomputed. Budgets, positions, masks, timing, scoring
and plotting are the harness's. `view` is a method's only way to the caches, and it is metered:
whatever a selector looks at before recomputation starts is loaded, timed and counted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, Protocol

import torch

from bench.kernels.attention_mass import Reduce
from bench.kv import KV, States
from bench.request import Request

__all__ = ["KV", "Chunk", "Method", "Request", "Softmax", "States", "View", "budget_of", "per_chunk", "top"]

Softmax = Literal["global", "context", "chunk"]


class View(Protocol):
    """The metered view of one request's caches. Positions are context positions, 0..N-1."""

    layers: int
    """L, the number of layers."""
    profile: Sequence[float]
    """The method's own `profile`, averaged over the calibration requests; empty without one."""

    def probe(
        self, context: str | None, last_layer: int | None = None, fetch: Sequence[int] = (),
        question_only: bool = False,
    ) -> States:  # fmt: skip
        """Run the user query U over a context cache, up to and including `last_layer`.

        `context` is "all" (the whole stitched cache), the name of a position set from `prepare`, or
        None (no retrieved context). The instruction S is always visible, U keeps its positions
        after the full context. Loads keys and values of what is visible, layer by layer; in parallel
        come the context keys of the layers in `fetch`, for `attention` afterwards. With `question_only`
        the question's own tokens run, at their positions, without the rest of U.
        """

    def attention(
        self, states: States, layer: int, *, heads: Reduce = "mean", tokens: Reduce = "mean",
        softmax: Softmax = "global",
    ) -> torch.Tensor:  # fmt: skip
        """Attention mass [N] each context position gets from U at a layer. Loads that layer's keys.

        The softmax runs over S, the context and, causally, U's own keys ("global"), over S and the
        context ("context"), or inside each chunk ("chunk").
        """

    def keys(self, layer: int) -> torch.Tensor:
        """Stitched context keys at a layer, [N, Hkv, D], after Pi. Loads them."""

    def values(self, layer: int) -> torch.Tensor:
        """Stitched context values at a layer, [N, Hkv, D]. Loads them."""

    def exact(self, layer: int) -> KV:
        """For controls alone: what full prefill has in place of `keys` and `values`; costs a full prefill."""


class Chunk(Protocol):
    """A chunk during offline preparation."""

    @property
    def ids(self) -> Sequence[int]:
        """The chunk's token ids."""

    @property
    def layers(self) -> int:
        """L, the number of layers."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""

    def ask(self, query: Sequence[int]) -> View:
        """A view of this chunk alone as the context, with `query` as the user query."""

    def recent(self, window: int) -> list[torch.Tensor]:
        """Attention mass [n - window] that the chunk's last `window` tokens give to those before them,
        mean over heads and tokens, a layer."""


@dataclass
class Method:
    """A cache-fusion method. Fields of the dataclass are its parameters, their defaults the paper's rule.

    A file in `methods/` (or a user's own) defines one subclass and names it `METHOD`; the first line
    of its docstring is what `qcbench methods` shows.
    """

    released: ClassVar[Mapping[str, Any]] = {}
    """The parameters that follow the released code where it differs: `name[variant=released]`."""
    mask = "exact"
    """A field of that name may choose "released": rows then see keys as in codes with a bottom-right
    aligned mask, later ones included."""

    uses_cache: ClassVar[bool] = True
    """False for full prefill: no cached chunk is read."""
    prefix_cached: ClassVar[bool] = True
    """Whether the instruction S is cached: so for all but one, which shows what that is worth."""
    rho: ClassVar[float | None] = None
    """A fixed recomputation ratio; None where rho is swept."""

    def nominal(self, chunks: int, chunk_tokens: int) -> float | None:
        """The one rho of a method that is not swept, given how many chunks there are and their size."""
        return self.rho

    def budget(self, request: Request, rho: float) -> int:
        """How many context positions to recompute: floor(rho N) (eq. 8)."""
        return budget_of(rho, request.context_tokens)

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


def per_chunk(request: Request, budget: int, without_first: bool = False) -> list[int]:
    """Share a budget among the chunks in proportion to their lengths, exactly (largest remainder).

    `without_first` gives the first chunk only what the others have no room for.
    """
    lengths = [len(c) for c in request.chunks]
    if without_first:
        first = max(0, budget - sum(lengths[1:]))
        return [first, *_shares(lengths[1:], budget - first)]
    return _shares(lengths, budget)


def _shares(lengths: Sequence[int], budget: int) -> list[int]:
    n = sum(lengths)
    shares = [budget * length // n for length in lengths]
    rests = [budget * length % n for length in lengths]
    for i in sorted(range(len(shares)), key=lambda i: (-rests[i], i))[: budget - sum(shares)]:
        shares[i] += 1
    return shares


def budget_of(rho: float, context_tokens: int) -> int:
    """floor(rho N) (QCFuse, eq. 8), in decimal so that 0.3 x 510 is 153."""
    return int(Decimal(str(rho)) * context_tokens)
