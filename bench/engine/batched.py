"""The caches of the requests being decoded together, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bench.kernels.decode_attention import decode_attention

if TYPE_CHECKING:
    from bench.engine.sglang import Runtime


class BatchedCache:
    """Gathered from the pool once and appended to at each step, so that no step gathers again.

    SGLang's CPU backend gathers keys and values of each request at each step and attends request by
    request; here one step of one layer is one attention for the whole batch. The pool is kept up to date.
    """

    def __init__(self, runtime: Runtime, room: int) -> None:
        """`room` is how many tokens a request may grow by."""
        self.runtime, self.room = runtime, room
        self._held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._forward: Any = None

    def step(self, forward: Any) -> None:
        """A step begins: SGLang's ForwardBatch of it."""
        self._forward = forward
        self._lengths = forward.seq_lens.long()
        self._rows = torch.arange(len(self._lengths))
        self._seen = int(self._lengths.max())

    def keep(self, rows: list[int]) -> None:
        """Go on with some of the requests."""
        self._held = {layer: (k[rows], v[rows]) for layer, (k, v) in self._held.items()}

    def _gather(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        table = self.runtime.model_runner.req_to_token_pool.req_to_token
        at = table[self._forward.req_pool_indices, : self._seen].long()
        held = []
        for part in (self.runtime.keys(layer), self.runtime.values(layer)):
            whole = part.new_zeros(len(at), self._seen + self.room, *part.shape[1:])
            whole[:, : self._seen] = part[at]
            held.append(whole)
        return held[0], held[1]

    def attend(self, layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """One new token a request: write its key and value, attend to all so far. See `sglang.Attend`."""
        i, new = layer.layer_id, self._forward.out_cache_loc.long()
        keys, values = self.runtime.keys(i), self.runtime.values(i)
        k, v = k.view(-1, *keys.shape[1:]), v.view(-1, *values.shape[1:])
        keys[new], values[new] = k, v
        if i not in self._held:
            self._held[i] = self._gather(i)
        held_k, held_v = self._held[i]
        held_k[self._rows, self._lengths - 1], held_v[self._rows, self._lengths - 1] = k, v
        queries = q.view(len(q), -1, layer.qk_head_dim)
        seen = (held_k[:, : self._seen], held_v[:, : self._seen])
        return decode_attention(queries, *seen, self._lengths, layer.scaling).reshape(q.shape)
