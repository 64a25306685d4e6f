"""The paper's claims held against rows: each claim true, false, borderline, missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from bench.claims import judge
from bench.claims.file import Claim, ClaimsFile, claims
from bench.claims.judging import judge_one
from bench.claims.panel import DEFAULTS, canonical, panels_of
from bench.claims.registry import MEASURES
from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    TOO_FEW,
    Verdict,
)
from bench.methods import method_of
from bench.metrics.bootstrap import paired_difference
from bench.results import paper_setup
from bench.results.paper_setup import UTILISATION_RANGE, relative
from bench.results.points import stream
from bench.results.run_folder import RunFolder
from bench.results.schema import Row
from tests._claims import BUILD, info_for, rows_for
from tests._rows import frame_of, make_row

BY_ID = {claim.id: claim for claim in claims()}
ALL = pytest.mark.parametrize("claim", claims(), ids=list(BY_ID))
STATES = {"true": REPRODUCED, "false": NOT_REPRODUCED, "borderline": INCONCLUSIVE, "missing": NO_DATA}


def run_of(rows: list[Row], folder: Path, info: dict[str, Any] | None = None) -> RunFolder:
    return RunFolder(folder, frame_of(rows, folder), info or {})


def verdict_on(claim: Claim, *runs: RunFolder) -> Verdict:
    predicted = any(run.frame["predicted"].eq(True).any() for run in runs)
    return judge_one(claim, panels_of(runs), predicted)


@ALL
@pytest.mark.parametrize("state", STATES)
def test_every_claim_in_every_state(claim: Claim, state: str, tmp_path: Path) -> None:
    verdict = verdict_on(claim, run_of(rows_for(claim, state), tmp_path, info_for(claim)))
    # on the threshold the rows cannot tell, because they are too few or although they are not
    wanted = (INCONCLUSIVE, TOO_FEW) if state == "borderline" else (STATES[state],)
    assert verdict.verdict in wanted, verdict
    if state != "missing":
        assert verdict.n == 40 * claim.requires.shapes
        assert "n = " in verdict.reason
        assert verdict.axes in verdict.reason
    else:
        assert (verdict.n, verdict.axes) == (0, "")


@ALL
def test_never_reproduced_from_rows_that_do_not_count(claim: Claim, tmp_path: Path) -> None:
    info = info_for(claim)
    true = rows_for(claim, "true")
    predicted = verdict_on(claim, run_of(rows_for(claim, "true", predicted=True), tmp_path / "p", info))
    assert predicted.verdict == NO_DATA
    assert "predicted" in predicted.reason

    few = verdict_on(
        claim, run_of(rows_for(claim, "true", n=claim.requires.requests - 1), tmp_path / "f", info)
    )
    assert few.verdict == NOT_TESTABLE
    assert f"needs {claim.requires.requests}" in few.reason

    failed = [row if i % 3 else row.model_copy(update={"status": "failed"}) for i, row in enumerate(true)]
    some = verdict_on(claim, run_of(failed, tmp_path / "s", info))
    assert some.verdict == NOT_TESTABLE
    assert "failed" in some.reason
    none = [row.model_copy(update={"status": "oom"}) for row in true]
    assert verdict_on(claim, run_of(none, tmp_path / "n", info)).verdict in (NO_DATA, NOT_TESTABLE)

    if claim.measure.reads_scores:
        ones = verdict_on(
            claim, run_of([r.model_copy(update={"score": 1.0}) for r in true], tmp_path / "o", info)
        )
        assert ones.verdict == NOT_TESTABLE
        assert "every score" in ones.reason


@ALL
def test_small_contexts_are_not_testable(claim: Claim, tmp_path: Path) -> None:
    tiny = {"chunks": claim.requires.chunks, "chunk_tokens": claim.requires.chunk_tokens - 1}
    rows = [r.model_copy(update=tiny) for r in rows_for(claim, "true") if r.chunks == claim.requires.chunks]
    verdict = verdict_on(claim, run_of(rows, tmp_path, info_for(claim)))
    assert verdict.verdict == NOT_TESTABLE
    assert "profile" in verdict.reason


@pytest.mark.parametrize(
    ("gpus", "reason"), [([], "no GPU"), (["NVIDIA H200"], "NVIDIA H200"), (["NVIDIA A100"], "needs an H20")]
)
def test_absolute_bandwidth_needs_the_papers_gpu(gpus: list[str], reason: str, tmp_path: Path) -> None:
    claim = BY_ID["prophetkv-crossing-gbps"]
    verdict = verdict_on(claim, run_of(rows_for(claim, "true"), tmp_path, {"host": {"gpus": gpus}}))
    assert verdict.verdict == NOT_TESTABLE
    assert reason in verdict.reason
    assert "hardware" in verdict.reason


def test_absolute_bandwidth_needs_the_papers_model(tmp_path: Path) -> None:
    claim = BY_ID["prophetkv-crossing-gbps"]
    rows = [row.model_copy(update={"model": "tiny/model-b"}) for row in rows_for(claim, "true")]
    verdict = verdict_on(claim, run_of(rows, tmp_path, info_for(claim)))
    assert (verdict.verdict, verdict.reason) == (NOT_TESTABLE, "model: needs qwen3-8b, the run had model-b")


def test_models_match_without_their_owner(tmp_path: Path) -> None:
    claim = BY_ID["mistral-vt-exception"]
    model = {"model": "mistralai/Mistral-7B-Instruct-v0.3"}
    rows = [row.model_copy(update=model) for row in rows_for(claim, "true")]
    assert verdict_on(claim, run_of(rows, tmp_path)).verdict == REPRODUCED


def test_bandwidths_that_end_before_the_threshold_are_not_testable(tmp_path: Path) -> None:
    claim = BY_ID["prophetkv-crossing-x"]
    rows = [row for row in rows_for(claim, "true") if row.bandwidth not in ("0.5x", "1x", "2x")]
    verdict = verdict_on(claim, run_of(rows, tmp_path))
    assert verdict.verdict == NOT_TESTABLE
    assert "measured: 3 to 11 x" in verdict.reason


def test_a_crossing_outside_the_range_is_not_reproduced(tmp_path: Path) -> None:
    claim = BY_ID["prophetkv-crossing-x"]
    rows = [
        row if row.method == "full_prefill" else row.model_copy(update={"ttft_s": 0.5})
        for row in rows_for(claim, "true")
    ]
    verdict = verdict_on(claim, run_of(rows, tmp_path))
    assert verdict.verdict == NOT_REPRODUCED
    assert "faster than full prefill at every bandwidth" in verdict.measured


def test_a_quality_never_reached_is_not_reproduced(tmp_path: Path) -> None:
    rows = [
        row.model_copy(update={"score": 0.2}) if row.method == "qcfuse" else row
        for row in rows_for(BY_ID["speedup-over-full-prefill"], "true")
    ]
    verdict = verdict_on(BY_ID["speedup-over-full-prefill"], run_of(rows, tmp_path))
    assert (verdict.verdict, verdict.measured) == (NOT_REPRODUCED, "not reached")
    assert verdict.record()["value"] is None


@pytest.mark.parametrize(("method", "gap"), [("qcfuse", "-0.400"), ("prophetkv", "+0.400")])
def test_without_its_premise_a_claim_is_not_testable(method: str, gap: str, tmp_path: Path) -> None:
    """Matched speed-up where a side never reaches the quality: the score at equal TTFT in its place."""
    claim = BY_ID["speedup-over-prophetkv"]
    rows = [
        row.model_copy(update={"score": 0.2}) if row.method == method else row
        for row in rows_for(claim, "true")
    ]
    verdict = verdict_on(claim, run_of(rows, tmp_path))
    assert verdict.verdict == NOT_TESTABLE
    assert "premise fails: both reach full prefill's quality" in verdict.reason
    assert f"at equal TTFT: {gap} [" in verdict.measured


def test_datasets_weigh_the_same(tmp_path: Path) -> None:
    rows = []
    for dataset, n, gain in (("ruler/mq", 40, 0.2), ("multihop", 10, 0.0)):
        for at in range(n):
            for method, rho, score in (("qcfuse", 0.5, 0.5 + gain), ("full_prefill", 1.0, 0.5)):
                rows.append(make_row(dataset=dataset, method=method, rho=rho, score=score, request=f"r{at}"))
    verdict = verdict_on(BY_ID["full-quality-at-half"], run_of(rows, tmp_path))
    assert verdict.value == pytest.approx(0.1)
    assert verdict.n == 50
    assert "ruler/mq, multihop" in verdict.reason or "multihop, ruler/mq" in verdict.reason


def test_pairs_count_and_not_rows(tmp_path: Path) -> None:
    """Requests that one side lacks do not enter: here the easy ones, measured under QCFuse alone."""
    rows = []
    for at in range(60):
        if at < 35:
            rows.append(make_row(method="full_prefill", rho=1.0, score=0.5, request=f"r{at:02}"))
        rows.append(make_row(method="qcfuse", rho=0.5, score=0.3 if at < 35 else 1.0, request=f"r{at:02}"))
    verdict = verdict_on(BY_ID["full-quality-at-half"], run_of(rows, tmp_path))
    assert (verdict.value, verdict.n) == (pytest.approx(-0.2), 35)
    assert verdict.verdict == NOT_REPRODUCED


def test_of_two_runs_the_one_with_more_requests_counts(tmp_path: Path) -> None:
    claim = BY_ID["full-quality-at-half"]
    small = run_of(rows_for(claim, "true", n=35), tmp_path / "small")
    large = run_of(rows_for(claim, "false", n=45), tmp_path / "large")
    for runs in ((small, large), (large, small)):
        verdict = verdict_on(claim, *runs)
        assert (verdict.verdict, verdict.n) == (NOT_REPRODUCED, 45)
        assert "large" in verdict.reason
        assert "small" not in verdict.reason


def test_equal_scores_throughout_are_no_proof(tmp_path: Path) -> None:
    """Thirty ties tell little about a hundredth; a large difference throughout tells enough."""
    claim = BY_ID["full-quality-at-half"]
    for gap, word in ((0.0, TOO_FEW), (0.3, REPRODUCED), (-0.3, NOT_REPRODUCED)):
        rows = [
            make_row(method=method, rho=rho, request=f"r{at}", score=score)
            for at in range(30)
            for method, rho, score in (("qcfuse", 0.5, 0.5 + gap), ("full_prefill", 1.0, 0.5))
        ]
        verdict = verdict_on(claim, run_of(rows, tmp_path / word))
        assert verdict.verdict == word
        assert (verdict.low, verdict.high) == pytest.approx((gap - 0.1, gap + 0.1))
        assert "the same in all requests" in verdict.reason


def test_a_difference_is_the_paired_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sides = {"qcfuse": rng.uniform(0, 1, 40), "full_prefill": rng.uniform(0, 1, 40)}
    rows = [
        make_row(
            method=method, rho=1.0 if method == "full_prefill" else 0.5, request=f"r{at:02}", score=score
        )
        for method, scores in sides.items()
        for at, score in enumerate(scores)
    ]
    verdict = verdict_on(BY_ID["full-quality-at-half"], run_of(rows, tmp_path))
    by_hand = paired_difference(*map(pd.Series, sides.values()), seed=stream("multihop"))
    assert (verdict.value, verdict.low, verdict.high) == pytest.approx(
        (by_hand.value, by_hand.low, by_hand.high)
    )


def test_the_worst_context_shape_counts(tmp_path: Path) -> None:
    claim = BY_ID["long-contexts-above-others"]
    shapes = sorted({(row.chunks, row.chunk_tokens) for row in rows_for(claim, "true")})
    good = [row for row in rows_for(claim, "true") if (row.chunks, row.chunk_tokens) == shapes[0]]
    bad = [row for row in rows_for(claim, "false") if (row.chunks, row.chunk_tokens) == shapes[1]]
    verdict = verdict_on(claim, run_of(good + bad, tmp_path))
    assert verdict.verdict == NOT_REPRODUCED
    assert f"worst at {shapes[1][0]} chunks" in verdict.reason
    alone = verdict_on(claim, run_of(good, tmp_path / "alone"))
    assert (alone.verdict, alone.reason) == (NOT_TESTABLE, "profile: needs 2 context shapes, the runs have 1")


def test_other_claims_take_one_context_shape(tmp_path: Path) -> None:
    claim = BY_ID["full-quality-at-half"]
    long = {"chunks": 20, "chunk_tokens": 512}
    rows = rows_for(claim, "true") + [r.model_copy(update=long) for r in rows_for(claim, "false")]
    verdict = verdict_on(claim, run_of(rows, tmp_path))
    assert (verdict.verdict, verdict.n) == (NOT_REPRODUCED, 40)
    assert "20 chunks of 512 tokens" in verdict.reason
    assert "4 chunks of 128" not in verdict.reason


def test_rows_at_request_rates_stay_out_of_other_claims(tmp_path: Path) -> None:
    claim = BY_ID["faster-than-full-at-half"]
    slow = rows_for(claim, "false", request_rate=2.0)
    verdict = verdict_on(claim, run_of(rows_for(claim, "true") + slow, tmp_path))
    assert verdict.verdict == REPRODUCED
    assert verdict_on(claim, run_of(slow, tmp_path / "alone")).verdict == NO_DATA


def test_a_variant_is_not_the_method(tmp_path: Path) -> None:
    claim = BY_ID["full-quality-at-half"]
    rows = [
        row.model_copy(update={"params": {"heads": "max"}}) if row.method == "qcfuse" else row
        for row in rows_for(claim, "true")
    ]
    assert verdict_on(claim, run_of(rows, tmp_path)).verdict == NO_DATA


def test_verdicts_are_the_same_twice(tmp_path: Path) -> None:
    run = run_of(rows_for(BY_ID["speedup-over-full-prefill"], "borderline"), tmp_path)
    assert [v.record() for v in judge([run])] == [v.record() for v in judge([run])]


def test_judge_gives_every_claim_in_order(tmp_path: Path) -> None:
    run = run_of([make_row(method="full_prefill", rho=1.0)], tmp_path)
    assert [verdict.id for verdict in judge([run])] == list(BY_ID)


def test_defaults_are_the_adapters() -> None:
    for name, params in DEFAULTS.items():
        assert {key: getattr(method_of(name).method, key) for key in params} == params


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({}, "{}"), ({"layers": 3, "anchor_ratio": 0.1}, "{}"), ({"layers": [0]}, '{"layers": "first"}'),
        ({"layers": [4]}, '{"layers": "middle"}'), ({"layers": [7]}, '{"layers": "final"}'),
        ({"layers": 8}, '{"layers": "all"}'), ({"layers": list(range(8))}, '{"layers": "all"}'),
        ({"layers": [5]}, '{"layers": "layer-5"}'), ({"layers": [5, 2]}, '{"layers": "layers-2-5"}'),
        ({"layers": 1, "anchor_ratio": 0}, '{"anchor_ratio": 0, "layers": "top-1"}'),
    ],
)  # fmt: skip
def test_parameters_have_one_name(params: dict[str, Any], name: str) -> None:
    assert canonical("qcfuse", params, 8) == name


def test_the_relative_crossing_is_the_papers_number(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = BY_ID["prophetkv-crossing-x"]
    slow, fast = UTILISATION_RANGE
    # utilisation raises speed, which lowers the multiple
    assert claim.threshold[0] == pytest.approx(relative(3e9, fast), abs=0.05)
    assert "3.3x on Qwen3-8B" in claim.note
    assert f"{relative(3e9):.1f}" == "3.3"
    # Llama-3.1-8B and Mistral-7B-v0.3 have the same sizes; then Qwen3-14B (their config.json)
    for sizes, words in (
        ((32, 4096, 14336, 32), "3.7x on Llama-3.1-8B and Mistral-7B"),
        ((40, 5120, 17408, 40), "5.4x on Qwen3-14B"),
    ):  # fmt: skip
        for name, size in zip(("LAYERS", "HIDDEN", "INTERMEDIATE", "HEADS"), sizes, strict=True):
            monkeypatch.setattr(paper_setup, name, size)
        assert f"{relative(3e9):.1f}x" == words.split()[0]
        assert words in claim.note
    assert claim.threshold[1] == pytest.approx(relative(3e9, slow), abs=0.05)
    assert claim.weak


def test_every_measure_is_used_and_has_rows_here() -> None:
    kinds = {claim.measure.kind for claim in claims()}
    premises = [claim.premise for claim in claims() if claim.premise]
    asked = {one.measure.kind for one in premises} | {one.instead.kind for one in premises if one.instead}
    assert set(BUILD) == kinds
    assert set(MEASURES) == kinds | asked


@pytest.mark.parametrize(
    "change",
    [
        {"expected": [1, 2]}, {"comparison": "between"}, {"tolerance": 0.1}, {"id": "Bad id"}, {"extra": 1},
        {"measure": {"kind": "eval", "of": "qcfuse"}}, {"measure": {"kind": "difference", "of": "qcfuse"}},
    ],
)  # fmt: skip
def test_a_malformed_claim_is_refused(change: dict[str, Any]) -> None:
    good = {
        "id": "a", "section": "1", "claim": "c", "expected": 0, "comparison": "above", "experiments": ["x"],
        "effect": 0.05, "measure": {"kind": "difference", "of": "qcfuse", "over": ["epic"]},
    }  # fmt: skip
    ClaimsFile.model_validate({"paper": "p", "claims": [good]})
    with pytest.raises(ValidationError):
        ClaimsFile.model_validate({"paper": "p", "claims": [good | change]})
    with pytest.raises(ValidationError, match="ids come twice"):
        ClaimsFile.model_validate({"paper": "p", "claims": [good, good]})
