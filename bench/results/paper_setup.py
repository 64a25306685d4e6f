"""The paper's storage bandwidths relative to its model: computed from published sizes, not measured.

The paper's Fig. 13 has absolute bandwidths on a machine of its own. To place them on a relative axis one has
to know its 1x: whole-cache bytes / full-prefill seconds. The bytes follow from the model's configuration; the
seconds are floating-point operations over the GPU's peak rate times an assumed utilisation
(docs/metrics.md, Relative bandwidth).
"""

from __future__ import annotations

# Qwen/Qwen3-8B, config.json
LAYERS, HIDDEN, INTERMEDIATE = 36, 4096, 12288
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
BYTES_A_NUMBER = 2
"""bf16."""

TOKENS = 20 * 512
"""Context of a request (section 4.1.4): 20 chunks of 512. The prompt's instruction and query are left out."""
PEAK_FLOPS = 148e12
"""NVIDIA H20, dense bf16, operations a second (data sheet); the paper's machine has two of them."""
UTILISATION = 0.7
"""Share of the peak a long prefill reaches: an assumption. `UTILISATION_RANGE` tells what it is worth."""
UTILISATION_RANGE = (0.5, 0.9)

MARKED = (3e9, 10e9)
"""Bytes a second the paper names: where ProphetKV gets slower than full prefill (section 4.4), and what its
disk reads (section 4.1.1)."""


def cache_bytes() -> int:
    """Keys and values of the whole context."""
    return 2 * LAYERS * KV_HEADS * HEAD_DIM * BYTES_A_NUMBER * TOKENS


def prefill_operations() -> int:
    """Floating-point operations of a full prefill: linear layers, and attention to earlier positions only.

    Left out, as they are small: norms, the output head of one position, embeddings.
    """
    attention_weights = 2 * HIDDEN * HEADS * HEAD_DIM + 2 * HIDDEN * KV_HEADS * HEAD_DIM
    weights = LAYERS * (attention_weights + 3 * HIDDEN * INTERMEDIATE)
    # two products of n x n x (heads x dimension), two operations each, half of them masked
    attention = 2 * TOKENS**2 * HEADS * HEAD_DIM * LAYERS
    return 2 * weights * TOKENS + attention


def prefill_seconds(utilisation: float = UTILISATION) -> float:
    """Seconds of a full prefill."""
    return prefill_operations() / (PEAK_FLOPS * utilisation)


def relative(bytes_per_s: float, utilisation: float = UTILISATION) -> float:
    """A bandwidth of the paper's machine in x: 1x loads the whole cache in the time of a full prefill."""
    return bytes_per_s * prefill_seconds(utilisation) / cache_bytes()
