"""Floating-point operations of a forward pass over chosen rows, counted from a model's configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a Llama-like decoder (SwiGLU feed-forward, grouped-query attention)."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int

    @staticmethod
    def of(folder: Path) -> ModelShape:
        """From the config.json of a checkpoint folder."""
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        heads = config["num_attention_heads"]
        return ModelShape(
            config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"], heads,
            config.get("num_key_value_heads", heads),
            config.get("head_dim") or config["hidden_size"] // heads,
        )  # fmt: skip

    @property
    def weights(self) -> int:
        """Weights of the decoder layers' matrices: query, key, value and output projections, feed-forward."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def cached_numbers(self) -> int:
        """Numbers cached a token: keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    def flops(self, positions: Iterable[int]) -> int:
        """Of a forward pass over rows at these positions, each of which sees itself and all before it.

        Two operations a weight and row, and four a head channel and visible key (scores, weighted sum).
        Embedding, norms, rotation and the output head are left out.
        """
        at = list(positions)
        attention = 4 * self.layers * self.heads * self.head_dim * sum(p + 1 for p in at)
        return 2 * self.weights * len(at) + attention
