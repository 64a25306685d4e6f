"""The checks a user runs: counted operations against torch's own count, and the arithmetic of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.assets.models import ModelRef
from bench.checks.fusion import equivalence, fig10_cell
from bench.checks.speed import RHOS, Stand, overlap, recompute_cost
from bench.flops import ModelShape
from tests._tiny import ARCHITECTURES
from tests._tokenizer import tiny_tokenizer


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_counted_operations_of_the_matrices_are_torchs(architecture: str, tiny) -> None:  # type: ignore[no-untyped-def]
    from transformers import AutoModelForCausalLM

    folder = tiny(architecture)
    model, n = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa"), 12
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model.model(torch.arange(n)[None] + 5)
    by_kind = {str(kind): count for kind, count in counter.get_flop_counts()["Global"].items()}
    matrices = sum(count for kind, count in by_kind.items() if "mm" in kind)
    shape = ModelShape.of(folder)
    attention = 4 * shape.layers * shape.heads * shape.head_dim * n * (n + 1) // 2
    assert shape.flops(range(n)) - attention == matrices


def test_a_row_pays_for_what_it_sees() -> None:
    shape = ModelShape(layers=2, hidden=8, inner=16, heads=4, kv_heads=2, head_dim=4)
    one = shape.flops([9]) - shape.flops([4])
    assert one == 4 * 2 * 4 * 4 * 5
    assert shape.cached_numbers == 2 * 2 * 2 * 4


@pytest.fixture
def stand(engine_of, tiny) -> Stand:  # type: ignore[no-untyped-def]
    engine = engine_of("llama")
    return Stand(ModelRef("tiny", tiny("llama"), "tiny", "tests"), engine, tiny_tokenizer(), 200)


def test_recompute_cost_tells_each_ratio(stand: Stand) -> None:
    found = recompute_cost(stand, 1)
    assert [r.rho for r in found] == list(RHOS)
    for r in found:
        n = len(stand.selected(r.rho))
        assert n == int(r.rho * 200) + 40
        assert 0 < r.flops_ratio < 1
        assert r.ttft_s > 0


def test_overlap_throttles_to_the_time_of_computing(stand: Stand, tmp_path: Path) -> None:
    (found,) = overlap(stand, tmp_path, ["epic"], 0.3, 1)
    whole = stand.shape.cached_numbers * 4 * 200
    assert found.load_s == pytest.approx(whole / found.bytes_per_s)
    assert found.one_by_one_s >= 0.9 * found.load_s, "without overlap every load is waited for"
    assert list(tmp_path.iterdir()) == [], "the store is gone again"


def test_equivalence_and_one_cell(stand: Stand) -> None:
    same = equivalence(stand.engine, [c[:20] for c in stand.request.chunks[:3]], stand.request.query)
    assert same.right
    assert same.stale > 1e-2
    cell = fig10_cell(stand, 0.3, rounds=1)
    assert set(cell) == {"full_prefill", "epic", "prophetkv", "qcfuse"}
    for row in cell.values():
        parts = sum(row[p] for p in ("select_s", "load_s", "recompute_s", "first_token_s"))
        assert parts == pytest.approx(row["ttft_s"], rel=0.02)
