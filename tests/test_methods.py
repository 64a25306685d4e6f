"""Every method keeps the rules: exact budget, sorted unique positions, counted reads."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.errors import UserError
from bench.method import budget_of, per_chunk, top
from bench.methods import method_of
from bench.plugins import available
from bench.request import Request
from bench.runners.measure import MethodFault, measure
from bench.runners.prepare import Preparer
from bench.store.memory import MemoryStore
from bench.store.reader import Reads
from bench.view import RequestView
from tests._tokenizer import tiny_tokenizer

SWEPT = [name for name in available("methods") if method_of(name).method.rho is None]


def make_request(lengths: tuple[int, ...] = (24, 24, 9), seed: int = 1) -> Request:
    draw = random.Random(seed)
    ids = [tuple(draw.randrange(3, 400) for _ in range(n)) for n in lengths]
    prefix, query = (tuple(draw.randrange(3, 400) for _ in range(n)) for n in (5, 6))
    return Request("r", "d", prefix, tuple(ids), query, ("x",), 4, evidence=(3, 4))


@pytest.fixture
def preparer(engine_of) -> Preparer:
    engine = engine_of("llama")
    engine.runtime.clear()
    return Preparer(engine, Reads(MemoryStore(), engine.device), tiny_tokenizer(), "tiny")


def run(preparer: Preparer, request: Request, spec: str, rho: float, profile=(0.1, 0.5, 0.2, 0.4)):
    named = method_of(spec)
    cached = preparer.caches(request, named)
    preparer.engine.runtime.clear()
    return measure(preparer.engine, preparer.reads, request, named.method, rho, cached, profile)


@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5, 1.0])
def test_the_budget_is_kept_exactly(preparer: Preparer, name: str, rho: float) -> None:
    request = make_request()
    row = run(preparer, request, name, rho).row
    assert row["positions_recomputed"][-1] == budget_of(rho, request.context_tokens)


@pytest.mark.parametrize("name", SWEPT)
def test_at_rho_1_every_method_equals_full_prefill(preparer: Preparer, name: str) -> None:
    request = make_request()
    full = run(preparer, request, "full_prefill", 1.0).first.logits.clone()
    assert float((run(preparer, request, name, 1.0).first.logits - full).abs().max()) < 1e-3


@pytest.mark.parametrize("name", available("methods"))
@pytest.mark.parametrize("lengths", [(30,), (1,), (16, 1), (8, 8, 8)])
def test_odd_shapes(preparer: Preparer, name: str, lengths: tuple[int, ...]) -> None:
    request, method = make_request(lengths), method_of(name).method
    rho = 0.5 if method.rho is None else method.rho
    assert run(preparer, request, name, rho).row["ttft_s"] > 0


@pytest.mark.parametrize("name", available("methods"))
def test_the_same_request_twice_gives_the_same(preparer: Preparer, name: str) -> None:
    request, method = make_request(), method_of(name).method
    rho = 0.3 if method.rho is None else method.rho
    first, second = (run(preparer, request, name, rho) for _ in range(2))
    assert first.row["selection_sha256"] == second.row["selection_sha256"]
    assert torch.equal(first.first.logits, second.first.logits)


def test_parts_add_up_to_ttft(preparer: Preparer) -> None:
    row = run(preparer, make_request(), "prophetkv", 0.3).row
    parts = sum(row[k] for k in ("select_s", "load_s", "recompute_s", "first_token_s"))
    assert row["ttft_s"] == pytest.approx(parts, rel=1e-6)


def test_what_a_selector_looks_at_is_counted(preparer: Preparer) -> None:
    """Bytes before fusion follow from what each select() touched (QCFuse, Table 2)."""
    request, engine = make_request(), preparer.engine
    token = 2 * engine.runtime.kv_heads * engine.runtime.head_dim * 4  # keys and values, one layer, fp32
    n, layers = request.context_tokens, engine.layers
    whole = layers * n * token  # S waits on the device
    rho = {m: method_of(m).method.rho for m in available("methods")}
    before = {m: run(preparer, request, m, 0.3 if r is None else r).row for m, r in rho.items()}
    for name in ("epic", "random_tokens", "cacheblend", "direct_reuse", "full_prefill"):
        assert before[name]["bytes_before_fusion"] == 0, name
    assert before["prophetkv"]["bytes_before_fusion"] == whole
    # keys of the last layer alone
    assert before["fusionrag"]["bytes_before_fusion"] == n * token // 2
    anchors = sum(-(-len(c) // 10) for c in request.chunks)
    critical = sorted(top((0.1, 0.5, 0.2, 0.4), 3).tolist())
    expected = (max(critical) + 1) * anchors * token + len(critical) * n * token // 2
    assert before["qcfuse"]["bytes_before_fusion"] == expected
    for name, row in before.items():
        if not method_of(name).method.uses_cache:
            assert row["bytes_total"] == 0
        elif name == "qcfuse":  # the packed anchors are read besides the whole cache
            assert row["bytes_total"] == whole + (max(critical) + 1) * anchors * token
        else:
            assert row["bytes_total"] == whole, name


@pytest.mark.parametrize(("variant", "widest"), [("paper", 1.2), ("released", 1)])
def test_cacheblend_recomputes_all_rows_up_to_its_check_layer(
    preparer: Preparer, variant: str, widest: float
) -> None:
    request = make_request()
    row = run(preparer, request, f"cacheblend[variant={variant}]", 0.3).row
    n, k = request.context_tokens, budget_of(0.3, request.context_tokens)
    assert row["positions_recomputed"] == [n, n, round(widest * k), k]
    assert row["rho_effective"] == pytest.approx(sum(row["positions_recomputed"]) / 4 / n)


def test_cacheblend_keeps_the_largest_deviation_of_values() -> None:
    from bench.kv import KV

    fresh = torch.zeros(5, 1, 2)
    cached = torch.tensor([0.0, 3.0, 1.0, 4.0, 2.0])[:, None, None].expand(5, 1, 2)
    keys = torch.zeros(5, 1, 2)
    positions = torch.tensor([10, 11, 12, 13, 14])
    method = method_of("cacheblend[variant=released]").method
    assert method.narrow(0, KV(keys, fresh), KV(keys, cached), positions, 2) is None
    assert method.narrow(1, KV(keys, fresh), KV(keys, cached), positions, 2).tolist() == [13, 11]


def test_epic_takes_the_first_tokens_of_every_chunk() -> None:
    request = make_request((10, 10, 5))
    chosen = method_of("epic").method.select(request, None, 10)
    assert sorted(chosen.tolist()) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21]


def test_prophetkv_finds_the_position_the_query_repeats(preparer: Preparer) -> None:
    """I(t) of eq. 10, recomputed here from the view's parts with a plain softmax."""
    request = make_request()
    named = method_of("prophetkv")
    cached = preparer.caches(request, named)
    view = RequestView(preparer.engine, preparer.reads, request, cached)
    states = view.probe("all")
    expected = torch.zeros(request.context_tokens)
    skip = len(request.prefix)
    for layer in range(view.layers):
        q, own = states.queries[layer], states.keys[layer]
        prefix = preparer.engine.rotate(
            preparer.store.part(cached.prefix[0], layer, "keys"), torch.arange(skip)
        )
        keys = torch.cat((prefix, view.keys(layer), own)).repeat_interleave(q.shape[1] // own.shape[1], 1)
        for h in range(q.shape[1]):
            for t in range(len(q)):
                seen = skip + request.context_tokens + t + 1
                weights = (keys[:seen, h] @ q[t, h] * preparer.engine.scale).softmax(0)
                expected += weights[skip : skip + request.context_tokens] / (q.shape[1] * len(q))
    chosen = named.method.select(request, view, 10)
    assert set(chosen.tolist()) == set(expected.topk(10).indices.tolist())


def test_qcfuse_anchors_are_a_tenth_of_each_chunk_rounded_up(preparer: Preparer) -> None:
    request = make_request((24, 25, 1))
    for rule in ("kvzip", "knorm", "sink"):
        cached = preparer.caches(request, method_of(f"qcfuse[anchor_rule={rule}]"))
        assert [len(preparer.store.positions(k)) for k in cached.packed["anchors"]] == [3, 3, 1]
    assert preparer.store.positions(cached.packed["anchors"][0]).tolist() == [0, 1, 2]


def test_qcfuse_without_anchors_probes_with_the_query_alone(preparer: Preparer) -> None:
    request = make_request()
    row = run(preparer, request, "qcfuse[anchor_ratio=0.0]", 0.3).row
    token = 2 * preparer.engine.runtime.kv_heads * preparer.engine.runtime.head_dim * 4
    assert row["bytes_before_fusion"] == 3 * request.context_tokens * token // 2


def test_qcfuse_profile_is_recall_of_the_evidence_by_layer(preparer: Preparer, tmp_path: Path) -> None:
    named, calibration = method_of("qcfuse"), [make_request(seed=s) for s in (1, 2)]
    profile = preparer.profile(named, calibration, tmp_path)
    assert len(profile) == preparer.engine.layers
    assert all(0 <= r <= 1 for r in profile)
    (kept,) = tmp_path.iterdir()
    rows = json.loads(kept.read_text())["rows"]
    assert len(rows) == 2
    kept.write_text(json.dumps({"rows": {key: [0.125] * len(profile) for key in rows}}))
    assert preparer.profile(named, calibration, tmp_path) == [0.125] * len(profile), "kept"
    assert preparer.profile(named, calibration[:1], tmp_path)[0] == 0.125, "kept by request"
    assert preparer.profile(named, [make_request(seed=3)], tmp_path)[0] != 0.125, "another request"
    moved = [replace(request, evidence=(0,)) for request in calibration]
    assert preparer.profile(named, moved, tmp_path)[0] != 0.125, "other evidence, another profile"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return torch.arange(budget + 1)", "positions, the budget is"),
        ("return torch.arange(budget) * 0", "a position twice"),
        ("return torch.arange(budget) + request.context_tokens", "outside the context"),
        ("return torch.arange(budget).float()", "torch.float32"),
    ],
)
def test_a_broken_selection_is_refused(preparer: Preparer, tmp_path: Path, body: str, message: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from dataclasses import dataclass\nimport torch\nfrom bench.method import Method\n"
        "@dataclass\nclass Mine(Method):\n    '''Mine.'''\n"
        f"    def select(self, request, view, budget):\n        {body}\nMETHOD = Mine\n"
    )
    with pytest.raises(MethodFault, match=message):
        run(preparer, make_request(), str(mine), 0.3)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nope", "unknown method 'nope'; known: cacheblend"),
        ("./nope.py", "not there"),
        ("qcfuse[layer=1]", "no parameter layer"),
        ("qcfuse[anchor_rule=best]", "anchor_rule"),
        ("qcfuse[layers]", "name=value"),
    ],
)
def test_wrong_specifications_give_one_clear_line(spec: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        method_of(spec)
    assert message in str(error.value)


def test_a_file_without_method_or_with_a_syntax_error(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    with pytest.raises(UserError, match="define METHOD"):
        method_of(str(tmp_path / "empty.py"))
    with pytest.raises(UserError, match=r"wrong.py, line 1"):
        method_of(str(tmp_path / "wrong.py"))


def test_per_chunk_shares_are_exact() -> None:
    request = make_request((10, 10, 5, 1))
    for budget in range(request.context_tokens + 1):
        shares = per_chunk(request, budget)
        assert sum(shares) == budget
        assert all(k <= len(c) for k, c in zip(shares, request.chunks, strict=True))


def test_budget_is_decimal() -> None:
    assert [budget_of(r, n) for r, n in ((0.3, 510), (0.1, 30), (0.7, 10), (1.0, 7))] == [153, 3, 7, 7]


def test_cacheblends_gradual_filter_narrows_to_the_budget() -> None:
    method = method_of("cacheblend[steps=3,widest=1.5]").method
    assert [method.keep(check, 20) for check in (-1, 0, 1, 2, 3)] == [None, 30, 25, 20, None]


def test_epics_own_k_is_one_point_and_counts_what_chunks_hold() -> None:
    request = make_request((10, 3, 8))
    named = method_of("epic[tokens=4]")
    assert named.method.nominal(3, 16) == 0.25
    assert named.method.budget(request, 0.25) == 4 + 3 + 4
    assert sorted(named.method.select(request, None, 11).tolist()) == [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16]
    without = method_of("epic[variant=released,tokens=4]").method
    assert without.budget(request, 0.25) == 3 + 4
    swept = method_of("epic[first_chunk=false]").method
    assert swept.nominal(3, 16) is None
    assert sorted(swept.select(request, None, 6).tolist()) == [10, 11, 13, 14, 15, 16]
    assert set(range(10, 21)) < set(swept.select(request, None, 13).tolist())


def test_a_variant_names_itself_and_what_differs_from_it() -> None:
    assert method_of("cacheblend").params == {}
    assert method_of("cacheblend[variant=released]").params == {"variant": "released"}
    own = method_of("cacheblend[variant=released,signal=K]")
    assert own.params == {"variant": "released", "signal": "K"}
    assert own.method.mask == "released"
    with pytest.raises(UserError, match="paper alone"):
        method_of("prophetkv[variant=released]")
    with pytest.raises(UserError, match="paper or released"):
        method_of("cacheblend[variant=mine]")


@pytest.mark.parametrize("rule", ["kvzip", "knorm", "sink", "snapkv"])
def test_anchors_by_layer_are_each_layers_own(preparer: Preparer, rule: str) -> None:
    request = make_request()
    spec = f"qcfuse[anchor_rule={rule},anchors_by_layer=true,forced_anchors=1,anchor_ratio=0.2]"
    cached = preparer.caches(request, method_of(spec))
    for key, chunk in zip(cached.packed["anchors"], cached.chunks, strict=True):
        positions = preparer.store.positions(key)
        assert positions.shape[0] == preparer.engine.layers
        assert (positions[:, 0] == 0).all(), "the forced one"
        for layer in range(preparer.engine.layers):
            whole = preparer.store.part(chunk, layer, "keys")
            assert torch.equal(preparer.store.part(key, layer, "keys"), whole[positions[layer]])
    sets = [preparer.store.positions(key).tolist() for key in cached.packed["anchors"]]
    assert any(len({tuple(p) for p in by_layer}) > 1 for by_layer in sets) == (rule != "sink")
    assert run(preparer, request, spec, 0.3).row["bytes_before_fusion"] > 0


def test_gold_evidence_spreads_from_the_answer(preparer: Preparer) -> None:
    method = method_of("gold_evidence").method
    request = replace(make_request(), evidence=(30, 31))
    assert sorted(method.select(request, None, 6).tolist()) == [28, 29, 30, 31, 32, 33]
    assert method.skip(replace(request, evidence=())) is not None


def test_oracle_deviation_finds_nothing_in_an_exact_cache(preparer: Preparer) -> None:
    """One chunk without an instruction is exact: no deviation, so ties go to the earliest positions."""
    request = replace(make_request((30,)), prefix=())
    exact = preparer.caches(request)
    with RequestView(preparer.engine, preparer.reads, request, exact) as view:
        for layer in range(view.layers):
            assert torch.allclose(view.exact(layer).keys, view.keys(layer), atol=1e-4)
            assert torch.allclose(view.exact(layer).values, view.values(layer), atol=1e-4)
    stale = make_request()
    with RequestView(preparer.engine, preparer.reads, stale, preparer.caches(stale)) as view:
        last = view.layers - 1
        assert not torch.allclose(view.exact(last).values, view.values(last), atol=1e-2)


def test_question_only_probes_with_the_questions_tokens_at_their_places(preparer: Preparer) -> None:
    request = replace(make_request(), question=(1, 4))
    with RequestView(preparer.engine, preparer.reads, request, preparer.caches(request)) as view:
        some, whole = view.probe("all", question_only=True), view.probe("all")
        assert len(some.keys[0]) == 3
        assert torch.allclose(some.keys[0], whole.keys[0][1:4], atol=1e-5), (
            "layer 0 depends on place and token"
        )
