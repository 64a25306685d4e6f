"""Cache fusion against full prefill and against transformers, in fp32."""

from __future__ import annotations

import random

import pytest
import torch

from bench.errors import UserError
from bench.kv import KV, Entry
from tests._tiny import ARCHITECTURES

MODELS = [
    *ARCHITECTURES,
    *(pytest.param(m, marks=pytest.mark.models) for m in ("smollm2-135m", "qwen2.5-coder-0.5b")),
]
TOLERANCE = 1e-3


class Held:
    """Entries in memory as the engine's source of layers."""

    def __init__(self, entries: list[Entry]) -> None:
        self.keys = torch.cat([e.keys for e in entries], 1)
        self.values = torch.cat([e.values for e in entries], 1)

    def at(self, layer: int) -> KV:
        return KV(self.keys[layer], self.values[layer])

    def layer(self, layer: int) -> list[KV]:
        """In two pieces, as a request's entries come in several."""
        kv, half = self.at(layer), self.keys.shape[1] // 2
        return [KV(kv.keys[:half], kv.values[:half]), KV(kv.keys[half:], kv.values[half:])]


class Case:
    """A model, a request of a prefix, three chunks and a query, and its full prefill."""

    def __init__(self, engine) -> None:
        self.engine = engine
        draw = random.Random(3)
        top = min(engine.runtime.vocab, 20000)
        self.prefix, self.query = ([draw.randrange(3, top) for _ in range(n)] for n in (7, 11))
        self.chunks = [[draw.randrange(3, top) for _ in range(n)] for n in (40, 33, 1)]
        self.context = [t for c in self.chunks for t in c]
        self.ids = [*self.prefix, *self.context, *self.query]
        self.cached = len(self.prefix) + len(self.context)
        engine.runtime.clear()
        self.full = engine.prefill(self.ids)
        at = self.full.slots.at
        self.full_keys = [engine.runtime.keys(i)[at].clone() for i in range(engine.layers)]
        self.full_values = [engine.runtime.values(i)[at].clone() for i in range(engine.layers)]

    def stale(self) -> Held:
        return Held([self.engine.capture(part) for part in (self.prefix, *self.chunks)])

    def exact(self) -> Held:
        return Held([self.engine.capture(self.ids[: self.cached])])

    def fuse(self, source: Held, positions: torch.Tensor, ids: list[int] | None = None):
        self.engine.runtime.clear()
        return self.engine.fuse(ids or self.ids, self.cached, source, positions, len(self.prefix))

    def off(self, first) -> float:
        return float((first.logits - self.full.logits).abs().max())

    @property
    def some(self) -> torch.Tensor:
        draw = random.Random(5)
        return torch.tensor(sorted(draw.sample(range(len(self.context)), len(self.context) // 3)))


@pytest.fixture(scope="module", params=MODELS)
def case(request, engine_of) -> Case:
    return Case(engine_of(request.param))


def test_sglang_full_prefill_equals_transformers(case: Case) -> None:
    from transformers import AutoModelForCausalLM

    oracle = AutoModelForCausalLM.from_pretrained(case.engine.runtime.path, dtype=torch.float32)
    with torch.no_grad():
        logits = oracle(torch.tensor([case.ids])).logits[0, -1]
    assert float((logits - case.full.logits).abs().max()) < TOLERANCE


def test_every_position_recomputed_equals_full_prefill(case: Case) -> None:
    assert case.off(case.fuse(case.stale(), torch.arange(len(case.context)))) < TOLERANCE


def test_exact_caches_with_any_selection_equal_full_prefill(case: Case) -> None:
    for positions in (case.some, case.some[:0], case.some[:1]):
        assert case.off(case.fuse(case.exact(), positions)) < TOLERANCE


def test_stale_caches_do_not(case: Case) -> None:
    assert case.off(case.fuse(case.stale(), case.some[:0])) > 10 * TOLERANCE


def test_one_chunk_stitched_equals_prefill(case: Case) -> None:
    """Stitching one whole context at its own positions gives full prefill's cache, at every layer."""
    engine, source = case.engine, case.exact()
    at = torch.arange(case.cached)
    for layer in range(engine.layers):
        kv = source.at(layer)
        assert torch.allclose(
            engine.rotate(kv.keys, at), case.full_keys[layer][: case.cached], atol=TOLERANCE
        )
        assert torch.allclose(kv.values, case.full_values[layer][: case.cached], atol=TOLERANCE)


def test_layer_0_of_stitched_chunks_equals_full_prefill(case: Case) -> None:
    """Keys and values of layer 0 depend on embeddings alone; deeper layers of later chunks do differ."""
    engine, source = case.engine, case.stale()
    at = torch.arange(case.cached)
    kv = source.at(0)
    assert torch.allclose(engine.rotate(kv.keys, at), case.full_keys[0][: case.cached], atol=TOLERANCE)
    assert torch.allclose(kv.values, case.full_values[0][: case.cached], atol=TOLERANCE)
    last = engine.layers - 1
    assert not torch.allclose(source.at(last).values, case.full_values[last][: case.cached], atol=TOLERANCE)


def test_a_changed_later_chunk_changes_no_earlier_selected_row(case: Case) -> None:
    skip, runtime = len(case.prefix), case.engine.runtime
    early = case.some[case.some < len(case.chunks[0])]

    def rows(ids: list[int], source: Held) -> list[torch.Tensor]:
        at = case.fuse(source, case.some, ids).slots.at[early + skip]
        return [
            torch.cat((runtime.keys(i)[at], runtime.values(i)[at]), -1).clone() for i in range(runtime.layers)
        ]

    before = rows(case.ids, case.stale())
    other = [(t + 1) % 300 + 3 for t in case.chunks[1]]
    ids = [*case.prefix, *case.chunks[0], *other, *case.chunks[2], *case.query]
    parts = (case.prefix, case.chunks[0], other, case.chunks[2])
    after = rows(ids, Held([case.engine.capture(p) for p in parts]))
    for a, b in zip(before, after, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_sglangs_own_mask_for_the_same_selection_differs(case: Case) -> None:
    """The negative control: a bottom-right aligned mask lets selected rows see the future."""
    engine, runtime = case.engine, case.engine.runtime
    slots = case.fuse(case.exact(), case.some).slots  # exact rows at every position
    rows = torch.cat((case.some + len(case.prefix), torch.arange(case.cached, len(case.ids))))
    batch = runtime.rows(torch.tensor(case.ids)[rows], rows, slots)
    batch.extend_prefix_lens = torch.tensor([len(case.ids) - len(rows)])
    batch.extend_prefix_lens_cpu = [len(case.ids) - len(rows)]
    batch.seq_lens, batch.seq_lens_cpu = torch.tensor([len(case.ids)]), torch.tensor([len(case.ids)])
    with torch.no_grad(), runtime.attention(lambda *_: None), runtime.own_attention():
        hidden = runtime.embed(batch)
        for layer in range(engine.layers):
            hidden = runtime.layer(layer, batch, hidden)
        logits = runtime.head(batch, hidden)
    assert float((logits - case.full.logits).abs().max()) > 10 * TOLERANCE


def test_the_same_fusion_twice_gives_the_same_logits(case: Case) -> None:
    source = case.stale()
    a, b = case.fuse(source, case.some).logits, case.fuse(source, case.some).logits
    assert torch.equal(a, b)


def test_narrowing_between_layers_counts_and_keeps_the_query(case: Case) -> None:
    """Rows that leave after layer 1 keep their fresh keys of layers 0 and 1, and stale ones after."""
    engine = case.engine
    n = len(case.context)
    kept = case.some

    def narrow(layer, fresh, cached, positions):
        assert len(fresh.keys) == len(cached.values) == len(positions)
        return kept if layer == 1 else None

    engine.runtime.clear()
    first = engine.fuse(case.ids, case.cached, case.stale(), torch.arange(n), len(case.prefix), narrow)
    assert [len(p) for p in first.positions] == [n, n] + [len(kept)] * (engine.layers - 2)
    stitched = engine.rotate(case.stale().at(2).keys, torch.arange(case.cached))[len(case.prefix) :]
    dropped = torch.tensor(sorted(set(range(n)) - set(kept.tolist())))
    at = first.slots.at[dropped + len(case.prefix)]
    assert torch.allclose(engine.runtime.keys(2)[at], stitched[dropped], atol=1e-5)
    exact = case.full_keys[1][dropped + len(case.prefix)]
    assert torch.allclose(engine.runtime.keys(1)[at], exact, atol=TOLERANCE), "fresh where they left"


@pytest.mark.parametrize("at", [0, 1, 3])
def test_narrowing_to_every_position_equals_full_prefill(case: Case, at: int) -> None:
    """Entering a layer again from its snapshot changes nothing."""
    n = len(case.context)

    def narrow(layer, fresh, cached, positions):
        return torch.arange(n) if layer == at else None

    case.engine.runtime.clear()
    first = case.engine.fuse(case.ids, case.cached, case.stale(), torch.arange(n), len(case.prefix), narrow)
    assert case.off(first) < TOLERANCE


def test_a_probe_over_the_exact_cache_gives_full_prefills_query_states(case: Case) -> None:
    engine, source = case.engine, case.exact()
    at = torch.arange(case.cached)

    def context(layer: int) -> KV:
        kv = source.at(layer)
        return KV(engine.rotate(kv.keys, at), kv.values)

    states = engine.probe(case.query, case.cached, context, engine.layers - 1)
    for layer in range(engine.layers):
        assert torch.allclose(states.keys[layer], case.full_keys[layer][case.cached :], atol=TOLERANCE)


def test_batched_decoding_equals_decoding_alone(case: Case) -> None:
    engine = case.engine
    engine.runtime.clear()
    prompts = [case.ids, case.ids[:-3], case.ids[:-5]]
    firsts = [engine.prefill(ids) for ids in prompts]
    together = engine.runtime.decode([f.slots for f in firsts], [f.token for f in firsts], frozenset(), 6)
    for ids, expected in zip(prompts, together, strict=True):
        engine.runtime.clear()
        alone = engine.prefill(ids)
        assert engine.runtime.decode([alone.slots], [alone.token], frozenset(), 6) == [expected]


def test_a_prefix_held_in_the_pool_changes_no_logit_and_no_answer(case: Case) -> None:
    """S in the pool, as full prefill is measured: what it leaves and what is decoded from it are the same."""
    engine = case.engine
    engine.runtime.clear()
    whole = engine.prefill(case.ids)
    answer = engine.runtime.decode([whole.slots], [whole.token], frozenset(), 6)
    engine.runtime.clear()
    held = engine.hold(case.prefix)
    assert held is not None
    first = engine.prefill(case.ids, held)
    assert len(first.slots.at) == len(case.ids)
    assert len(set(first.slots.at.tolist())) == len(case.ids)
    assert case.off(first) < TOLERANCE
    for layer in range(engine.layers):
        keys = engine.runtime.keys(layer)[first.slots.at]
        full = case.full_keys[layer]  # keys of some models reach hundreds
        assert float((keys - full).abs().max()) < TOLERANCE * max(1.0, float(full.abs().max()))
    assert engine.runtime.decode([first.slots], [first.token], frozenset(), 6) == answer
    engine.runtime.clear()
    held = engine.hold(case.prefix)
    free = engine.runtime.model_runner.token_to_kv_pool_allocator.available_size()
    other = engine.prefill(case.ids, held)
    engine.runtime.release(other.slots)
    after = engine.runtime.model_runner.token_to_kv_pool_allocator.available_size()
    assert after == free + len(case.prefix)  # released as one, S too


def test_decoding_stops_at_a_stop_token_and_leaves_it_out(case: Case) -> None:
    engine = case.engine
    engine.runtime.clear()
    first = engine.prefill(case.ids)
    long = engine.runtime.decode([first.slots], [first.token], frozenset(), 8)[0]
    stop = long[3]
    engine.runtime.clear()
    first = engine.prefill(case.ids)
    assert engine.runtime.decode([first.slots], [first.token], frozenset([stop]), 8) == [
        long[: long.index(stop)]
    ]


def test_a_request_larger_than_the_pool_is_one_line(case: Case) -> None:
    runtime = case.engine.runtime
    with pytest.raises(UserError, match=f"does not fit into the KV pool of {runtime.pool_tokens}"):
        runtime.allocate([5] * (runtime.pool_tokens + 1))
