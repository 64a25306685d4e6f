"""Cache fusion on SGLang: capture, probe, selective recompute, first token, decode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.engine.fusion import Fusion, LayerSource, LayerTimes, Narrow
from bench.engine.sglang import Runtime, Slots
from bench.errors import UserError
from bench.kernels.place import Place
from bench.kernels.rotate import rotate
from bench.kernels.selected_attention import Mask, Rows, selected_attention
from bench.kv import KV, Entry, States


@dataclass
class FirstToken:
    """The end of a prefill: logits, the request's slots, and when things happened.

    Times are readings of `time.perf_counter()` in seconds; `positions` the context positions whose
    keys and values each layer recomputed. Full prefill has neither layers nor positions.
    """

    logits: torch.Tensor
    token: int
    slots: Slots
    head_began: float
    ended: float
    layers: list[LayerTimes]
    positions: list[torch.Tensor]

    @property
    def load_s(self) -> float:
        """Seconds spent waiting for cached layers."""
        return sum(layer.wait_ended - layer.wait_began for layer in self.layers)


class Engine:
    """One model, ready for cache fusion. fp32 is the reference, bf16 the faster choice."""

    def __init__(self, path: Path, dtype: str = "float32", pool_tokens: int = 8192) -> None:
        self.runtime = Runtime(path, dtype, pool_tokens)
        self.layers, self.device = self.runtime.layers, self.runtime.device
        self.dtype = self.runtime.dtype

    @property
    def scale(self) -> float:
        """The softmax scale of the model's attention."""
        return float(self.runtime.model.model.layers[0].self_attn.attn.scaling)

    def check_length(self, tokens: int, what: str) -> None:
        """Raise `UserError` where a sequence is longer than the model's context."""
        if tokens > self.runtime.context_length:
            raise UserError(
                f"{what}: {tokens} tokens, but the model's context holds {self.runtime.context_length}; "
                "ask for fewer or smaller chunks"
            )

    def rotate(self, keys: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Pi on keys [n, Hkv, D]: rotate once, with the model's own table (rope scaling included)."""
        rotary = self.runtime.rotary
        return rotate(keys, positions, rotary.cos_sin_cache, rotary.is_neox_style)

    # --- offline -------------------------------------------------------------------------------

    def capture(self, ids: Sequence[int], behind: Sequence[int] = ()) -> Entry:
        """Forward a chunk alone, at positions 0.., and keep its cache (QCFuse, eq. 3).

        `behind` are ids that come first and are dropped from the cache again (a chunk prefix).
        """
        run, skip = self.runtime, len(behind)
        tokens = torch.tensor([*behind, *ids], device=self.device)
        at = torch.arange(len(tokens), device=self.device)
        values: list[torch.Tensor] = []

        def attend(layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            values.append(v.view(len(tokens), -1, layer.v_head_dim)[skip:].clone())
            return self._attend(layer, q, k, v, place, rows)

        place, rows = Place(at), Rows(at)
        with run.attention(attend), run.keys_before_rope() as keys:
            batch = run.rows(tokens, at, None)
            hidden = run.embed(batch)
            for layer in range(self.layers):
                hidden = run.layer(layer, batch, hidden)
        shape = (len(tokens), run.kv_heads, run.head_dim)
        return Entry(
            torch.stack([k.view(shape)[skip:] for k in keys]), torch.stack(values),
            torch.arange(len(ids), device=self.device),
        )  # fmt: skip

    # --- online --------------------------------------------------------------------------------

    def probe(
        self,
        ids: Sequence[int],
        first_position: int,
        context: Callable[[int], KV] | None,
        last_layer: int,
    ) -> States:
        """Run query tokens over a given context cache, up to and including `last_layer`.

        `context(layer)` gives keys after RoPE and values [M, Hkv, D] of that layer, all of them visible;
        None means no context. Nothing is written to the pool (QCFuse, eq. 9 and 17).
        """
        run = self.runtime
        at = torch.arange(first_position, first_position + len(ids), device=self.device)
        states = States([], [])
        # The query's rows stand behind the M context keys, whatever their request positions.
        behind = torch.arange(len(ids), device=self.device)
        masks: dict[int, tuple[Place, Rows]] = {}

        def attend(layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            k, v = k.view(len(ids), -1, layer.qk_head_dim), v.view(len(ids), -1, layer.v_head_dim)
            states.queries.append(q.view(len(ids), -1, layer.qk_head_dim))
            states.keys.append(k)
            if context is not None:
                kv = context(layer.layer_id)
                k, v = torch.cat((kv.keys, k)), torch.cat((kv.values, v))
            before = len(k) - len(ids)
            if before not in masks:
                place = Place(torch.arange(len(k), device=self.device))
                masks[before] = place, Rows(behind + before)
            return self._attend(layer, q, k, v, *masks[before])

        with run.attention(attend):
            batch = run.rows(torch.tensor(ids, device=self.device), at, None)
            hidden = run.embed(batch)
            for layer in range(last_layer + 1):
                hidden = run.layer(layer, batch, hidden)
        return states

    def fuse(
        self, ids: Sequence[int], cached: int, source: LayerSource, positions: torch.Tensor,
        prefix: int = 0, narrow: Narrow | None = None, mask: Mask = "exact",
    ) -> FirstToken:  # fmt: skip
        """Stitch the cached positions 0..cached-1 and recompute some of them, layer by layer (eq. 7).

        `positions` are sorted context positions (request position minus `prefix`); the positions from
        `cached` on (the query U) are always computed. At each layer the cached keys and values are
        waited for where that layer's attention begins; fresh rows overwrite them; every row sees the
        partially fused cache up to its own position and nothing later, unless `mask` is the released codes'.
        Where `narrow` keeps fewer
        positions at a layer, all rows leave fresh keys and values there, and only those kept go through
        its attention and the layers behind it.
        """
        slots = self.runtime.allocate(ids)
        try:
            fusion = Fusion(self.runtime, ids, slots, cached, source, positions, prefix, narrow, mask)
            logits = fusion.run()
            token = int(logits.argmax())
            fusion.watch.stamp()
        except BaseException:  # a damaged entry, say: what else runs in the pool goes on
            self.runtime.release(slots)
            raise
        *stamps, ended = fusion.watch.read()
        layers = [LayerTimes(*stamps[i : i + 4]) for i in range(0, len(stamps), 4)]
        return FirstToken(logits, token, slots, layers[-1].ended, ended, layers, fusion.counted)

    def hold(self, ids: Sequence[int]) -> Slots | None:
        """Prefill a prompt's beginning that stays in the pool, such as S; for the one `prefill` that goes on
        with it. None where it is empty."""
        return self.runtime.prefill(ids)[1] if ids else None

    def prefill(self, ids: Sequence[int], held: Slots | None = None) -> FirstToken:
        """Full prefill: SGLang's own extend, its own backend; behind what is `held` where that is given."""
        logits, slots = self.runtime.prefill(ids, held)
        token = int(logits.argmax())
        return FirstToken(logits, token, slots, self.runtime.head_began, time.perf_counter(), [], [])

    def _attend(
        self, layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, place: Place, rows: Rows
    ) -> torch.Tensor:
        heads, size = layer.tp_q_head_num, layer.qk_head_dim
        k, v = k.view(-1, layer.tp_k_head_num, size), v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
        return selected_attention(q.view(-1, heads, size), k, v, place, rows, layer.scaling).reshape(
            len(q), -1
        )
