"""Selective recomputation written from the paper's equations (4) to (7), against the engine's.

Nothing of `bench.engine` and `bench.kernels` is used on the oracle's side: a plain torch decoder over the
weights of a `transformers` model, a position-independent cache at chunk-local positions that is rotated
on by its distance (the engine keeps keys before RoPE and rotates once), and attention row by row over
the keys at j <= p (the engine: blocks of rows under a mask).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from bench.kv import KV
from tests._tiny import ARCHITECTURES

TOLERANCE = 1e-3
SHAPES = [(40, 33, 1), (24, 24, 9), (30,), (1, 16, 1, 2)]
PREFIXES = [0, 7]
QUERY = 11


class Decoder:
    """Embeddings, projections, norms, MLPs and the head of a model; rotation and attention of our own."""

    def __init__(self, path) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self.layers = self.model.model.layers
        self.inv_freq = self.model.model.rotary_emb.inv_freq  # rope scaling is in it
        assert self.model.model.rotary_emb.attention_scaling == 1.0
        self.size = self.layers[0].self_attn.head_dim

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Each pair (x_i, x_{i+D/2}) of x [n, H, D] turned by position times frequency."""
        half = self.size // 2
        angle = positions.float()[:, None, None] * self.inv_freq
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((turned.real, turned.imag), -1)

    def project(self, layer: Any, hidden: torch.Tensor, positions: torch.Tensor):
        """Queries, keys (both rotated) and values of rows."""
        attention, x = layer.self_attn, layer.input_layernorm(hidden)
        q, k, v = (
            p(x).view(len(x), -1, self.size) for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm(q), attention.k_norm(k)
        return self.rotate(q, positions), self.rotate(k, positions), v

    def attend(self, layer: Any, hidden: torch.Tensor, q, keys, values, last_seen: Sequence[int]):
        """A row at p reads positions j <= last_seen (p itself, unless a wrong mask is asked for)."""
        group = q.shape[1] // keys.shape[1]
        rows = []
        for row, end in zip(q, last_seen, strict=True):
            k = keys[: end + 1].repeat_interleave(group, 1)
            v = values[: end + 1].repeat_interleave(group, 1)
            weights = torch.softmax(torch.einsum("hd,jhd->hj", row, k) / self.size**0.5, -1)
            rows.append(torch.einsum("hj,jhd->hd", weights, v).flatten())
        hidden = hidden + layer.self_attn.o_proj(torch.stack(rows))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden))

    @torch.no_grad()
    def cache(self, ids: Sequence[int]) -> list[KV]:
        """KV^PIC of a chunk alone, at positions 0.. (eq. 3)."""
        at, kept = torch.arange(len(ids)), []
        hidden = self.model.model.embed_tokens(torch.tensor(ids))
        for layer in self.layers:
            q, k, v = self.project(layer, hidden, at)
            kept.append(KV(k, v))
            hidden = self.attend(layer, hidden, q, k, v, at.tolist())
        return kept

    def stitched(self, pieces: Sequence[Sequence[int]]) -> list[KV]:
        """KV^PIC(C) of eq. (4): Pi turns a chunk's keys on by where the chunk begins; values stay."""
        begin, caches = 0, []
        for ids in pieces:
            caches.append(
                [
                    KV(self.rotate(kv.keys, torch.full((len(ids),), begin)), kv.values)
                    for kv in self.cache(ids)
                ]
            )
            begin += len(ids)
        return [
            KV(torch.cat([c[i].keys for c in caches]), torch.cat([c[i].values for c in caches]))
            for i in range(len(self.layers))
        ]

    @torch.no_grad()
    def fuse(self, pieces, query: Sequence[int], chosen: Sequence[int], bottom_right: bool = False):
        """Eq. (7): rows of P and of U anew, each over the partially fused prefix. Logits and KV^Fuse."""
        ids = torch.tensor([t for piece in pieces for t in piece] + list(query))
        cached = len(ids) - len(query)
        rows = torch.tensor([*sorted(chosen), *range(cached, len(ids))])
        last_seen = rows.tolist()
        if bottom_right:
            last_seen = list(range(len(ids) - len(rows), len(ids)))
        fused = []
        hidden = self.model.model.embed_tokens(ids[rows])
        for layer, kv in zip(self.layers, self.stitched(pieces), strict=True):
            q, k, v = self.project(layer, hidden, rows)
            keys = torch.cat((kv.keys, torch.zeros(len(query), *kv.keys.shape[1:])))
            values = torch.cat((kv.values, torch.zeros(len(query), *kv.values.shape[1:])))
            keys[rows], values[rows] = k, v
            fused.append(KV(keys, values))
            hidden = self.attend(layer, hidden, q, keys, values, last_seen)
        return self.model.lm_head(self.model.model.norm(hidden[-1])), fused


class Held:
    """Entries captured by the engine, as its source of layers."""

    def __init__(self, entries) -> None:
        self.entries = entries

    def layer(self, layer: int) -> list[KV]:
        return [KV(e.keys[layer], e.values[layer]) for e in self.entries]


class Case:
    """A request of random tokens, fused by both."""

    def __init__(self, engine, decoder: Decoder, shape: tuple[int, ...], prefix: int) -> None:
        self.engine, self.decoder, self.prefix = engine, decoder, prefix
        draw = random.Random(f"{shape}:{prefix}")
        self.n = sum(shape)
        sizes = [prefix, *shape] if prefix else shape
        self.pieces = [[draw.randrange(3, 400) for _ in range(size)] for size in sizes]
        self.query = [draw.randrange(3, 400) for _ in range(QUERY)]
        self.ids = [t for piece in (*self.pieces, self.query) for t in piece]
        engine.runtime.clear()
        self.source = Held([engine.capture(piece) for piece in self.pieces])
        counts = sorted({0, 1, self.n // 3, self.n // 2, self.n})
        self.selections = [sorted(draw.sample(range(self.n), k)) for k in counts for _ in range(2)]

    def ours(self, chosen: list[int]):
        self.engine.runtime.clear()
        return self.engine.fuse(
            self.ids, self.prefix + self.n, self.source, torch.tensor(chosen, dtype=torch.int64), self.prefix
        )

    def oracle(self, chosen: list[int], **options):
        return self.decoder.fuse(self.pieces, self.query, [p + self.prefix for p in chosen], **options)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request, engine_of, checkpoint):
    return engine_of(request.param), Decoder(checkpoint(request.param))


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_engine_computes_equation_7(model, shape: tuple[int, ...], prefix: int) -> None:
    """Logits, and keys and values of every position at every layer."""
    case = Case(*model, shape, prefix)
    runtime = case.engine.runtime
    for chosen in case.selections:
        first, (logits, fused) = case.ours(chosen), case.oracle(chosen)
        assert float((first.logits - logits).abs().max()) < TOLERANCE
        for layer, kv in enumerate(fused):
            assert torch.allclose(runtime.keys(layer)[first.slots.at], kv.keys, atol=TOLERANCE)
            assert torch.allclose(runtime.values(layer)[first.slots.at], kv.values, atol=TOLERANCE)


def test_the_oracle_itself_is_full_prefill_where_everything_is_recomputed(model) -> None:
    case = Case(*model, SHAPES[0], 7)
    logits, _ = case.oracle(list(range(case.n)))
    whole = [case.ids[:7], case.ids[7:-QUERY]]  # any cut, as no cached row is left but the instruction's
    assert torch.allclose(
        case.decoder.fuse(whole, case.query, range(7, 7 + case.n))[0], logits, atol=TOLERANCE
    )
    with torch.no_grad():
        full = case.decoder.model(torch.tensor([case.ids])).logits[0, -1]
    assert float((logits - full).abs().max()) < TOLERANCE


def test_a_bottom_right_aligned_mask_gives_something_else(model) -> None:
    """The negative control: the released codes' mask, over the same caches and the same selection."""
    case = Case(*model, SHAPES[0], 7)
    chosen = case.selections[5]
    assert 1 < len(chosen) < case.n
    wrong, _ = case.oracle(chosen, bottom_right=True)
    assert float((case.ours(chosen).logits - wrong).abs().max()) > 10 * TOLERANCE


def test_the_released_mask_is_that_one(model) -> None:
    case = Case(*model, SHAPES[0], 7)
    for chosen in case.selections[3:7]:
        case.engine.runtime.clear()
        first = case.engine.fuse(
            case.ids, 7 + case.n, case.source, torch.tensor(chosen), 7, mask="released"
        )  # fmt: skip
        wrong, _ = case.oracle(chosen, bottom_right=True)
        assert float((first.logits - wrong).abs().max()) < TOLERANCE


def test_another_selection_gives_something_else(model) -> None:
    """Agreement is not for want of a difference: moving one position shows."""
    case = Case(*model, SHAPES[0], 7)
    chosen = case.selections[5]
    moved = sorted({*chosen[1:], next(p for p in range(case.n) if p not in chosen)})
    assert float((case.ours(chosen).logits - case.oracle(moved)[0]).abs().max()) > 10 * TOLERANCE


def test_direct_reuse_is_not_full_prefill(model) -> None:
    """Eq. (5)."""
    case = Case(*model, SHAPES[0], 7)
    none, every = case.oracle([])[0], case.oracle(list(range(case.n)))[0]
    assert float((none - every).abs().max()) > 10 * TOLERANCE
