"""A new method beside a finished run: pairing, drift, standing; and the tutorial's method, end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from bench.compare import measure
from bench.compare.beside import put_beside
from bench.compare.measure import compare
from bench.compare.show import show, warnings
from bench.compare.standing import standing
from bench.errors import UserError
from bench.experiments import Sweep, resolve
from bench.methods import method_of
from bench.results.reader import read_rows, read_run_info
from bench.results.run_folder import RunFolder
from bench.results.schema import Row
from tests._rows import frame_of, point, write_run

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "sinks_and_matches.py"
N = 20


def scores(mean: float) -> np.ndarray:
    return (np.arange(N) < round(mean * N)).astype(float)


def rows(points: list[tuple[str, float, float, float]], **fields: Any) -> list[Row]:
    """Points (method, rho, mean score, TTFT) on two datasets."""
    found = []
    for dataset in ("ruler/mq", "multihop"):
        for method, rho, score, ttft in points:
            read = {"direct_reuse": (0, 100), "prophetkv": (100, 100), "mine": (25, 100)}.get(method, (0, 0))
            some = point(
                scores(score), np.full(N, ttft), method=method, rho=rho, dataset=dataset,
                request_sha256=f"{dataset}", bytes_before_fusion=read[0], bytes_total=read[1], **fields,
            )  # fmt: skip
            # as in real runs, another dataset's requests have other names
            found += [row.model_copy(update={"request": f"{row.request}-{dataset[-2:]}"}) for row in some]
    return found


BASE = [
    ("full_prefill", 1.0, 0.9, 1.0), ("direct_reuse", 0.0, 0.4, 0.1),
    ("epic", 0.3, 0.6, 0.4), ("prophetkv", 0.3, 0.7, 0.8),
]  # fmt: skip


def folder(made: list[Row], path: Path) -> RunFolder:
    info = {"methods": [{"name": "mine", "about": "mine"}]}
    write_run(made, path, info)
    return RunFolder(path, frame_of(made, path), info)


def test_times_are_scaled_by_what_full_prefill_took_beside_it(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(rows([("full_prefill", 1.0, 0.9, 2.0), ("mine", 0.3, 0.8, 1.0)]), tmp_path / "own")
    beside = put_beside(base, own, "mine")
    mine = beside.run.frame[beside.run.frame["method"] == "mine"]
    assert np.allclose(mine["ttft_s"], 0.5)
    assert np.allclose(mine["recompute_s"], 0.15)
    assert set(own.frame.loc[own.frame["method"] == "mine", "ttft_s"]) == {1.0}, "the rows stay as measured"
    full = beside.run.frame[beside.run.frame["method"] == "full_prefill"]
    assert len(full) == 2 * N, "the finished run's alone"
    assert len(beside.unsteady) == 2
    assert "2.00 times as long" in beside.unsteady[0]
    assert not put_beside(base, base, "epic").unsteady


def test_standing(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(rows([("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.8, 0.5)]), tmp_path / "own")
    stands = standing(put_beside(base, own, "mine"))
    (rank,) = stands.ranks
    assert (rank.place, rank.among, rank.score.n) == (1, 3, 2 * N)
    assert rank.score.value == pytest.approx(0.8)
    assert [front.behind for front in stands.fronts] == [None, None]
    assert stands.fronts[0].speedup == pytest.approx(2.0)
    duels = {(duel.dataset, duel.other): duel for duel in stands.duels}
    assert {other for _, other in duels} == {"full_prefill", "direct_reuse", "epic", "prophetkv"}
    against = duels["ruler/mq", "epic"]
    assert (against.score.value, against.speed.value) == (pytest.approx(0.2), pytest.approx(0.8))
    assert against.verdict == "better"
    assert duels["ruler/mq", "full_prefill"].verdict in ("level", "worse")
    loads = {(load.dataset, load.method): load.share for load in stands.loads}
    assert (loads["multihop", "mine"], loads["multihop", "prophetkv"]) == (0.25, 1.0)


def test_an_uncertain_drift_widens_the_times_and_is_said(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    made = rows([("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.8, 0.5)])
    steady = standing(put_beside(base, folder(made, tmp_path / "steady"), "mine"))
    rng = np.random.default_rng(0)
    noisy = [
        row.model_copy(update={"ttft_s": float(rng.lognormal(0, 0.2))})
        if row.method == "full_prefill"
        else row
        for row in made
    ]
    beside = put_beside(base, folder(noisy, tmp_path / "noisy"), "mine")
    speeds = [
        next(duel.speed for duel in stands.duels if duel.other == "epic")
        for stands in (steady, standing(beside))
    ]
    assert speeds[0].low == speeds[0].high
    assert speeds[1].high - speeds[1].low > 0.05
    console = Console(width=120, record=True)
    show(beside, standing(beside), console)
    text = " ".join(console.export_text().split())
    assert f"Rows of mine: {tmp_path / 'noisy'}".replace(" ", "") in text.replace(" ", "")
    assert "its times are multiplied by" in text


def test_one_request_gives_no_interval_and_no_verdict(tmp_path: Path) -> None:
    def first(made: list[Row]) -> list[Row]:
        return [row for row in made if row.request.startswith("r0-")]

    base = folder(first(rows(BASE)), tmp_path / "base")
    own = folder(first(rows([("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.8, 0.5)])), tmp_path / "own")
    beside = put_beside(base, own, "mine")
    console = Console(width=120, record=True)
    show(beside, standing(beside), console)
    text = console.export_text()
    assert "unknown" in text
    assert "nan" not in text


def test_a_point_that_another_beats_on_both_is_behind_it(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(rows([("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.5, 0.5)]), tmp_path / "own")
    beside = put_beside(base, own, "mine")
    stands = standing(beside)
    assert {front.behind for front in stands.fronts} == {"epic at rho 0.3"}
    assert stands.ranks[0].place == 3
    console = Console(width=120, record=True)
    show(beside, stands, console)
    text = console.export_text()
    assert "place 3 of 3" in text
    assert "behind epic at rho 0.3" in text


def test_other_requests_under_the_same_names_are_refused(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(rows(BASE), tmp_path / "own")
    other = RunFolder(own.path, own.frame.assign(request_sha256="other"), own.info)
    with pytest.raises(UserError, match="other requests under the same names"):
        put_beside(base, other, "epic")


def test_without_full_prefill_there_is_nothing_to_compare_by(tmp_path: Path) -> None:
    base = folder(rows(BASE[1:]), tmp_path / "base")
    own = folder(rows([("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.5, 0.5)]), tmp_path / "own")
    with pytest.raises(UserError, match="no full prefill"):
        put_beside(base, own, "mine")


OWN = [("full_prefill", 1.0, 0.9, 1.0), ("mine", 0.3, 0.8, 0.5)]


def failed(made: list[Row], which: Callable[[Row], bool]) -> list[Row]:
    bad = {"status": "failed", "error": "ValueError: no\nmore", "score": None, "ttft_s": None}
    return [row.model_copy(update=bad) if which(row) else row for row in made]


def test_a_method_that_fails_on_one_dataset_is_judged_on_the_other(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    made = failed(rows(OWN), lambda row: row.method == "mine" and row.dataset == "multihop")
    beside = put_beside(base, folder(made, tmp_path / "own"), "mine")
    stands = standing(beside)
    assert stands.failed == N
    assert not stands.ranks, "no place among methods measured on more"
    assert stands.left_out == ["mine: measured on 0% of multihop, left out"]
    assert {duel.dataset for duel in stands.duels} == {"ruler/mq"}
    assert {front.dataset for front in stands.fronts} == {"ruler/mq"}
    assert f"{N} rows of mine were not measured" in warnings(beside, stands)[0]


def test_some_failed_requests_leave_the_same_requests_for_all(tmp_path: Path) -> None:
    """Else a method that fails on what it cannot do would win."""
    base = folder(rows(BASE), tmp_path / "base")
    kept = {f"r{i}" for i in range(12)}  # EPIC and mine solve them all
    made = failed(rows(OWN), lambda row: row.method == "mine" and row.request.split("-")[0] not in kept)
    stands = standing(put_beside(base, folder(made, tmp_path / "own"), "mine"))
    (rank,) = stands.ranks
    assert rank.score.n == 2 * len(kept)
    assert (rank.score.value, rank.place) == (1.0, 1)
    assert all(duel.score.n == len(kept) for duel in stands.duels)
    level = next(duel for duel in stands.duels if duel.other == "epic")
    assert level.score.value == 0.0, "EPIC solves these too"


def test_a_method_that_fails_everywhere_is_one_line(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(failed(rows(OWN), lambda row: row.method == "mine"), tmp_path / "own")
    with pytest.raises(UserError, match=r"mine: not one request was measured \(ValueError: no\).*errors.log"):
        put_beside(base, own, "mine")


def test_full_prefill_that_fails_on_one_dataset_is_one_line(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    lacking = failed(rows(OWN), lambda row: row.method == "full_prefill" and row.dataset == "multihop")
    with pytest.raises(UserError, match="no full prefill of model-a on multihop"):
        put_beside(base, folder(lacking, tmp_path / "own"), "mine")
    half = failed(rows(OWN), lambda r: r.method == "full_prefill" and r.request.split("-")[0] < "r2")
    other = failed(rows(BASE), lambda r: r.method == "full_prefill" and r.request.split("-")[0] >= "r2")
    with pytest.raises(UserError, match=r"no request of .* has full prefill in both"):
        put_beside(folder(other, tmp_path / "other"), folder(half, tmp_path / "half"), "mine")


def test_several_bandwidths_are_refused(tmp_path: Path) -> None:
    base = folder(rows(BASE, bandwidth="1x") + rows(BASE[2:], bandwidth="3x"), tmp_path / "base")
    with pytest.raises(UserError, match="has 2 bandwidths"):
        put_beside(base, folder(rows(OWN), tmp_path / "own"), "mine")


def test_its_own_better_point_puts_a_point_behind(tmp_path: Path) -> None:
    base = folder(rows(BASE), tmp_path / "base")
    own = folder(rows([*OWN, ("mine", 0.5, 0.7, 0.6)]), tmp_path / "own")
    stands = standing(put_beside(base, own, "mine"))
    behind = {front.rho: front.behind for front in stands.fronts}
    assert behind == {0.3: None, 0.5: "mine at rho 0.3"}


def test_shares_are_of_what_direct_reuse_reads(tmp_path: Path) -> None:
    """A method that reads packed sets besides, more than the cache, shrinks nobody's share."""
    base = rows(BASE)
    base = [row.model_copy(update={"bytes_total": 120}) if row.method == "prophetkv" else row for row in base]
    beside = put_beside(folder(base, tmp_path / "base"), folder(rows(OWN), tmp_path / "own"), "mine")
    assert {load.share for load in standing(beside).loads if load.method == "prophetkv"} == {1.0}


def test_an_edited_file_and_another_parameter_are_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every version has a folder; the one that was measured already is not measured again."""
    measured = []

    def fake(sweep: Sweep, out: Path, console: Console, *, fresh: bool = False, dry: bool = False) -> int:
        measured.append((out, fresh))
        write_run(rows(OWN), out, {"methods": []})
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "run", fake)
    sweep = resolve("fig10", "tiny", requests=N, models=["model-a"]).model_dump(mode="json")
    info = {"identity": "i", "sweep": sweep, "dtype": "float32"}
    base = write_run(rows(BASE), Path("results") / "base", info)
    mine = tmp_path / "mine.py"
    mine.write_text(EXAMPLE.read_text())
    console = Console(width=120, record=True)
    one, other = str(mine), f"{mine}[share=0.3]"
    for spec, fresh in ((one, False), (other, False), (one, False), (one, True)):
        assert compare(spec, base, "fig10", "tiny", tmp_path / "out", console, fresh) == 0
    mine.write_text(EXAMPLE.read_text() + "# another version\n")
    assert compare(one, base, "fig10", "tiny", tmp_path / "out", console) == 0
    folders = [out for out, _ in measured]
    assert folders[0] == folders[2] == folders[3]
    assert len(set(folders)) == 3
    assert [fresh for _, fresh in measured] == [False, False, False, True, False]


@pytest.mark.parametrize("rows_file", [None, ""])
def test_a_base_killed_in_its_first_request_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_file: str | None
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "run.json").write_text(json.dumps({"sweep": {"models": ["m"], "datasets": ["d"], "requests": 2}}))
    if rows_file is not None:
        (base / "rows.jsonl").write_text(rows_file)
    gone_on = []
    monkeypatch.setattr(measure, "run", lambda sweep, out, console, **_: gone_on.append(out))
    monkeypatch.setattr(measure, "open_run", lambda path: path)
    assert measure._finished(base, "fig10", "tiny", Console()) == base
    assert gone_on == [base]


def test_the_tutorials_file_is_the_example() -> None:
    text = (ROOT / "docs" / "add-a-method.md").read_text()
    assert EXAMPLE.read_text().strip() in text
    assert method_of(str(EXAMPLE)).params == {}


@pytest.mark.models
def test_the_tutorial_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user does: a finished run, then the example beside it; again, nothing is measured twice."""
    monkeypatch.chdir(tmp_path)
    console = Console(width=120, record=True)
    base, out = Path("results") / "fig10-tiny", Path("reports") / "page"
    assert compare(str(EXAMPLE), base, "fig10", "tiny", out, console) == 0
    text = console.export_text()
    assert "is not finished: measuring what it lacks first" in text
    assert "Your method: sinks_and_matches" in text
    assert "of 7" in text
    (own,) = (Path("results") / "compare-sinks_and_matches").iterdir()
    assert set(read_rows(own)["method"]) == {"full_prefill", "sinks_and_matches"}
    assert (read_rows(own)["status"] == "ok").all()
    finished = read_run_info(base)
    page = (out / "index.html").read_text()
    assert "sinks_and_matches" in page
    before = read_rows(own)
    assert compare(str(EXAMPLE), base, "fig10", "tiny", out, console) == 0
    pd.testing.assert_frame_equal(before, read_rows(own))
    assert read_run_info(base) == finished, "the finished run is not touched"
    with pytest.raises(UserError, match="rows of a method called 'epic' already"):
        compare("epic", base, "fig10", "tiny", out, console)
