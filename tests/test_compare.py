"""A new method beside a finished run: pairing, drift, standing; and the tutorial's method, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from bench.compare.beside import put_beside
from bench.compare.measure import compare
from bench.compare.show import show
from bench.compare.standing import standing
from bench.errors import UserError
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
            found += point(
                scores(score), np.full(N, ttft), method=method, rho=rho, dataset=dataset,
                request_sha256=f"{dataset}", bytes_before_fusion=read[0], bytes_total=read[1], **fields,
            )  # fmt: skip
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
    own = Path("results") / "compare-sinks_and_matches" / "fig10-tiny"
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
