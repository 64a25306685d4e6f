"""What a referee asks of a verdict: panels, power, premises, storage, disturbed machines, the family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.claims.family import family_line, p_value, with_family
from bench.claims.file import Claim, claims
from bench.claims.judging import judge_one
from bench.claims.measure import Estimate
from bench.claims.panel import panels_of
from bench.claims.power import REACH, Z, about, requests_needed
from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    PARTLY,
    PARTLY_NOT,
    REPRODUCED,
    TOO_FEW,
    Verdict,
)
from bench.cli import main
from bench.results.run_folder import RunFolder
from bench.results.schema import Row
from tests._claims import rows_for
from tests._rows import frame_of, make_row, write_run

BY_ID = {claim.id: claim for claim in claims()}
DATASETS = ("ruler/mq", "ruler/mv", "ruler/vt")


def verdict_on(claim: Claim, rows: list[Row], folder: Path) -> Verdict:
    return judge_one(claim, panels_of([RunFolder(folder, frame_of(rows, folder), {})]), False)


def versus(gaps: dict[str, float], n: int, spread: float = 0.2, over: str = "epic") -> list[Row]:
    """QCFuse's score less another's: `gaps` by dataset, +- `spread` from request to request."""
    return [
        make_row(dataset=dataset, method=method, request=f"r{at:04}", score=score)
        for dataset, gap in gaps.items()
        for at in range(n)
        for method, score in (("qcfuse", 0.5 + gap + (spread if at % 2 else -spread)), (over, 0.5))
    ]


@pytest.mark.parametrize(
    ("sign", "whole", "part"), [(1, REPRODUCED, PARTLY), (-1, NOT_REPRODUCED, PARTLY_NOT)]
)
def test_a_lead_in_one_panel_is_that_panels(sign: int, whole: str, part: str, tmp_path: Path) -> None:
    claim = BY_ID["qcfuse-above-epic"]
    one = dict.fromkeys(DATASETS, 0.0) | {"ruler/vt": 0.4 * sign}
    verdict = verdict_on(claim, versus(one, 60), tmp_path / "one")
    assert (verdict.verdict, verdict.said) == (part, f"{whole} on ruler/vt only")
    assert [panel.name for panel in verdict.panels] == list(DATASETS)
    assert [panel.n for panel in verdict.panels] == [60, 60, 60]
    assert f"{0.4 * sign:+.3f} [" in verdict.panels[-1].measured
    every = verdict_on(claim, versus(dict.fromkeys(DATASETS, 0.13 * sign), 60), tmp_path / "every")
    assert (every.verdict, every.said) == (whole, whole)
    alone = verdict_on(claim, versus({"ruler/vt": 0.4 * sign}, 60), tmp_path / "alone")
    assert (alone.verdict, alone.panels) == (whole, ())


def test_panels_that_only_tell_together_are_named(tmp_path: Path) -> None:
    verdict = verdict_on(BY_ID["qcfuse-above-epic"], versus(dict.fromkeys(DATASETS[:2], 0.045), 60), tmp_path)
    assert verdict.said == "reproduced only with ruler/mq, ruler/mv"
    assert {panel.verdict for panel in verdict.panels} == {INCONCLUSIVE}


def test_models_name_their_panels(tmp_path: Path) -> None:
    rows = versus({"multihop": 0.0}, 40)
    rows += [row.model_copy(update={"model": "org/model-b"}) for row in versus({"multihop": 0.4}, 40)]
    verdict = verdict_on(BY_ID["qcfuse-above-epic"], rows, tmp_path)
    assert verdict.said == "reproduced on model-b multihop only"


@pytest.mark.parametrize(("n", "word"), [(60, TOO_FEW), (400, INCONCLUSIVE)])
def test_what_n_requests_could_not_show_is_not_inconclusive(n: int, word: str, tmp_path: Path) -> None:
    """No effect at all: few requests could not have told the 0.05 worth telling, many could."""
    verdict = verdict_on(BY_ID["qcfuse-above-epic"], versus({"multihop": 0.0}, n), tmp_path)
    assert verdict.verdict == word
    by_hand = 0.2**2 * (REACH / 0.05) ** 2
    # the means of so few two-valued requests, and so the interval's ends, come in steps
    assert verdict.needed == pytest.approx(by_hand, rel=0.15)
    if word == TOO_FEW:
        assert verdict.said == f"not testable with 60 requests ({about(verdict.needed)} needed)"
    else:
        assert "lies outside the interval" in verdict.remark


def test_an_interval_on_one_side_is_a_verdict_whatever_the_power(tmp_path: Path) -> None:
    for gap, word in ((0.3, REPRODUCED), (-0.3, NOT_REPRODUCED)):
        verdict = verdict_on(BY_ID["qcfuse-above-epic"], versus({"multihop": gap}, 40), tmp_path / word)
        assert verdict.verdict == word
        assert verdict.needed > verdict.n


def test_the_requests_needed_show_a_planted_effect_in_four_of_five_runs() -> None:
    claim = BY_ID["qcfuse-near-prophetkv"]
    error = 0.02
    n = requests_needed(claim, Estimate(0.0, -Z * error, Z * error), 100)
    shrunk = error * np.sqrt(100 / n)
    estimates = np.random.default_rng(0).normal(0.0, shrunk, 20_000)
    assert np.mean(estimates - Z * shrunk > -claim.tolerance) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"effect": None}, "an effect goes"), ({"effect": 0.1, "tolerance": 0.1}, "an effect")],
)
def test_every_claim_says_what_is_worth_telling(change: dict[str, Any], why: str) -> None:
    good = BY_ID["qcfuse-above-epic"].model_dump()
    if "tolerance" in change:
        good["comparison"] = "at_least"
    with pytest.raises(ValueError, match=why):
        Claim.model_validate(good | change)


def test_a_premise_that_fails_leaves_nothing_to_judge(tmp_path: Path) -> None:
    claim = BY_ID["qcfuse-above-epic"]
    rows = versus({"multihop": 0.3}, 40)
    for reuse, word in ((0.5, NOT_TESTABLE), (0.1, REPRODUCED)):
        more = [
            make_row(method=method, rho=rho, request=f"r{at:04}", score=score)
            for at in range(40)
            for method, rho, score in (("full_prefill", 1.0, 0.5), ("direct_reuse", 0.0, reuse))
        ]
        verdict = verdict_on(claim, rows + more, tmp_path / word)
        assert verdict.verdict == word
        assert ("premise fails" if word == NOT_TESTABLE else "premise holds") in verdict.reason
    assert "premise not checked" in verdict_on(claim, rows, tmp_path / "none").reason


@pytest.mark.parametrize("name", [c.id for c in claims() if getattr(c.measure, "store", None) == (8.0, 16.0)])
def test_claims_about_time_take_the_papers_storage_alone(name: str, tmp_path: Path) -> None:
    memory = {"bandwidth": "none", "bandwidth_bytes_per_s": None}
    rows = [row.model_copy(update=memory) for row in rows_for(BY_ID[name], "true")]
    verdict = verdict_on(BY_ID[name], rows, tmp_path)
    assert verdict.verdict == NO_DATA
    assert "no data at that storage" in verdict.reason or "no rows" in verdict.reason


def test_every_claim_about_time_names_its_storage() -> None:
    for claim in claims():
        kind, column = claim.measure.kind, getattr(claim.measure, "column", "ttft_s")
        if kind in ("select_share", "ttft_rises", "matched_speedup", "worst_rate") or (
            kind == "ratio" and column != "bytes_before_fusion"
        ):
            assert getattr(claim.measure, "store", None) in ((8.0, 16.0), "slowest"), claim.id


def test_quality_takes_any_tier_once(tmp_path: Path) -> None:
    """Measured in memory and at 11x: one of them counts; where one side lacks memory, 11x does."""
    claim, rows = BY_ID["qcfuse-above-epic"], versus({"multihop": 0.3}, 40)
    slow = {"bandwidth": "11x", "bandwidth_bytes_per_s": 1.1e7, "bandwidth_unit": 1e6}
    more = [row.model_copy(update=slow) for row in rows]
    assert verdict_on(claim, rows + more, tmp_path / "both").n == 40
    without = [row for row in rows if row.method == "qcfuse"]
    verdict = verdict_on(claim, without + more, tmp_path / "one")
    assert (verdict.verdict, verdict.n) == (REPRODUCED, 40)
    assert "store at 11x" in verdict.axes


@pytest.mark.parametrize(("share", "word"), [(0.05, REPRODUCED), (0.25, NOT_TESTABLE)])
def test_times_of_a_disturbed_machine_do_not_count(share: float, word: str, tmp_path: Path) -> None:
    for name, expected in (("faster-than-full-at-half", word), ("full-quality-at-half", REPRODUCED)):
        rows = [
            row.model_copy(update={"disturbed": int(row.request[1:]) < share * 40})
            for row in rows_for(BY_ID[name], "true")
        ]
        verdict = verdict_on(BY_ID[name], rows, tmp_path / name)
        assert verdict.verdict == expected
        assert ("disturbed" in verdict.reason) == (name == "faster-than-full-at-half")
    old = verdict_on(
        BY_ID["faster-than-full-at-half"], rows_for(BY_ID["faster-than-full-at-half"], "true"), tmp_path
    )
    assert old.verdict == REPRODUCED
    assert "the rows do not tell whether the machine was disturbed" in old.reason


def test_the_best_variant_is_the_one_to_beat(tmp_path: Path) -> None:
    claim = BY_ID["qcfuse-near-best-prophetkv"]
    rng = np.random.default_rng(0)
    sets: list[tuple[str, dict[str, Any], float]] = [
        ("qcfuse", {}, 0.5), ("prophetkv", {}, 0.4), ("prophetkv", {"tokens": "max"}, 0.7)
    ]  # fmt: skip
    rows = [
        make_row(method=method, params=params, request=f"r{at:02}", score=score + rng.normal(0, 0.1))
        for method, params, score in sets
        for at in range(40)
    ]
    verdict = verdict_on(claim, rows, tmp_path)
    assert verdict.verdict == NOT_REPRODUCED
    assert verdict.value == pytest.approx(-0.2, abs=0.06)
    assert "prophetkv[tokens=max]" in verdict.remark
    assert verdict.value - verdict.low == pytest.approx(verdict.high - verdict.value)
    one = [row for row in rows if row.params == {}]
    assert verdict_on(claim, one, tmp_path / "one").verdict == NO_DATA


def test_holm_by_hand() -> None:
    numbers = ("1", "c", "> 0", "+0.1", 0.1, 0.0, 0.2, 9, REPRODUCED, "r")
    ps = (0.001, 0.04, 0.012, 0.2)
    made = with_family([replace(Verdict(f"id-{at}", *numbers), p=p) for at, p in enumerate(ps)])
    # 0.001 <= 0.05 / 4, 0.012 <= 0.05 / 3, 0.04 > 0.05 / 2
    assert [one.survives_holm for one in made] == [True, False, True, False]
    assert "over the 4 claims" in family_line(made)
    assert "2 of the 4 reproduced, in part or wholly, remain; not id-1, id-3." in family_line(made)
    assert family_line([]) == ""


@pytest.mark.parametrize("low", [-0.001, 0.001])
def test_a_p_value_says_what_its_interval_says(low: float) -> None:
    p = p_value(BY_ID["qcfuse-above-epic"], Estimate(0.1, low, 0.3))
    assert (p < 0.05) == (low > 0)


def test_power_is_listed_run_by_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(versus({"multihop": 0.0}, n), tmp_path / f"run{n}") for n in (40, 400)]
    assert main(["claims", "--power", *map(str, runs)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "qcfuse-above-epic" in line]
    assert [(line[3], line[-2]) for line in lines] == [("40", "no"), ("400", "yes")]
    assert main(["claims", "--power", "--json", str(runs[0])]) == 2
