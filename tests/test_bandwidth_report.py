"""Fig. 13 and which experiment has which report."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from rich.console import Console

from bench.experiments import known, profiles, resolve
from bench.figures import fig13
from bench.figures.style import styles
from bench.results.points import with_variants
from bench.results.report import REPORTS, write_reports
from bench.results.schema import Row
from tests._bandwidth import curve, full, sweep
from tests._rows import frame_of, grid, make_row, write_run
from tests.test_figures import words

XS: list[float | None] = [0.5, 1, 2, 5, 11, None]
QUALITY = ["fig10.png", "fig10.svg", "fig11.png", "fig11.svg", "summary.csv", "metrics.csv"]


def report(rows: list[Row], folder: Path, experiment: str | None) -> tuple[list[str], str]:
    out = StringIO()
    info = {} if experiment is None else {"experiment": experiment}
    paths = write_reports(write_run(rows, folder / "run", info), folder / "out", Console(file=out, width=100))
    assert all(path.stat().st_size > 0 for path in paths)
    return [path.name for path in paths], out.getvalue()


def test_every_experiment_has_its_report(tmp_path: Path) -> None:
    assert set(known()) <= set(REPORTS)
    rows = sweep([1, 5, None], n=3)
    files, text = report(rows, tmp_path / "a", "fig13")
    assert files == ["fig13.png", "fig13.svg", "crossings.csv", "summary.csv"]
    assert "crossing with full prefill" in text
    assert report(sweep([11], n=3), tmp_path / "b", "fig01")[0] == [
        "fig01.png", "fig01.svg", "stages.csv", "summary.csv",
    ]  # fmt: skip
    assert report(grid(datasets=("multihop",), n=2), tmp_path / "c", "fig10")[0] == QUALITY


@pytest.mark.parametrize("experiment", ["fig01", "fig13"])
@pytest.mark.parametrize("case", ["all failed", "one request", "one method"])
def test_degenerate_runs_have_a_report(tmp_path: Path, experiment: str, case: str) -> None:
    rows = {
        "all failed": [make_row(status="failed", ttft_s=None, score=None, error="boom")],
        "one request": full([1.0]) + curve("qcfuse", {1: [2.0], 4: [0.5]}),
        "one method": curve("qcfuse", {1: [2.0, 2.1]}),
    }[case]
    files, text = report(rows, tmp_path, experiment)
    assert f"{experiment}.png" in files
    assert ("1 failed" in text) == (case == "all failed")


@pytest.mark.parametrize("experiment", [None, "mine"])
def test_rows_of_several_bandwidths_in_tables_over_rho(tmp_path: Path, experiment: str | None) -> None:
    files, text = report(sweep([1, 5, None], n=3), tmp_path, experiment)
    assert files == QUALITY
    assert "QCFuse (bandwidth=1x)" in text


def test_a_variant_names_its_bandwidth_only_where_there_are_several(tmp_path: Path) -> None:
    rows = full([1.0]) + curve("qcfuse", {1: [1.0], 5: [1.0]}) + curve("epic", {5: [1.0]})
    frame = frame_of(rows, tmp_path)
    several = ["full_prefill", "qcfuse(bandwidth=1x)", "qcfuse(bandwidth=5x)", "epic"]
    assert with_variants(frame)["variant"].tolist() == several
    plain = ["full_prefill", "qcfuse", "qcfuse", "epic"]
    assert with_variants(frame, over="bandwidth")["variant"].tolist() == plain


def test_several_rhos_are_several_curves(tmp_path: Path) -> None:
    rows = full([1.0] * 2)
    for rho, ttft in ((0.1, 0.4), (0.5, 0.8)):
        rows += curve("qcfuse", {1: [ttft + 1] * 2, 4: [ttft] * 2}, rho=rho)
    text = " ".join(report(rows, tmp_path, "fig13")[1].split())
    assert "QCFuse (rho=0.1)" in text
    written = pd.read_csv(tmp_path / "out" / "crossings.csv").set_index("variant")
    # 1.4 s and 0.4 s, 1.8 s and 0.8 s: after 0.4 and 0.8 of the way from 1x to 4x
    assert written["crossing_x"].to_dict() == pytest.approx(
        {"qcfuse(rho=0.1)": 4**0.4, "qcfuse(rho=0.5)": 4**0.8}, rel=1e-4
    )


def test_the_terminal_says_what_was_found(tmp_path: Path) -> None:
    rows = full([1.0] * 6) + curve("prophetkv", {1: [2.0] * 6, 8: [0.5] * 6, None: [0.4] * 6})
    rows += curve("qcfuse", {1: [0.9] * 6, 8: [0.3] * 6, None: [0.2] * 6})
    rows.append(make_row(method="qcfuse", rho=0.5, request="r9", status="failed", ttft_s=None, error="boom"))
    text = " ".join(report(rows, tmp_path, "fig13")[1].replace("│", " ").split())
    for part in (
        "crosses at 4x (80 MB/s)", "[4x, 4x]", "[< 1x, < 1x]", "0% / 100% / 0%", "100% / 0% / 0%", "HOLDS",
        "none inside the measured range", "2.00 s (600 ms)", "no throttle", "1 x qcfuse: boom",
    ):  # fmt: skip
        assert part in text
    written = pd.read_csv(tmp_path / "out" / "crossings.csv").set_index("method")
    assert written.loc["prophetkv", "crossing_x"] == pytest.approx(4)
    assert np.isnan(written.loc["qcfuse", "crossing_x"])
    assert written.loc["qcfuse", "where"] == "below"


def test_without_a_throttle_there_is_no_crossing(tmp_path: Path) -> None:
    files, text = report(sweep([None], n=2), tmp_path, "fig13")
    assert len(files) == 4
    assert "no crossing to compute" in text
    figure = fig13.draw(frame_of(sweep([None], n=2), tmp_path / "again"), {})
    assert "no measured request\nunder a throttle" in words(figure)


def panel(tmp_path: Path, xs: list[float | None] = XS) -> Axes:
    (ax,) = fig13.draw(frame_of(sweep(xs, n=6), tmp_path), {}).axes
    return ax


def test_axes(tmp_path: Path) -> None:
    ax = panel(tmp_path)
    assert ax.get_xscale() == "log"
    assert ax.get_ylim()[0] == 0
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        "0.5x", "1x", "2x", "5x", "11x", "no\nthrottle",
    ]  # fmt: skip
    (top,) = ax.child_axes
    # the unit of the synthetic rows is 20 MB/s
    assert [label.get_text() for label in top.get_xticklabels()] == ["10", "20", "40", "100", "220"]
    assert top.get_xlabel() == "bandwidth here (MB/s)"
    text = words(ax.get_figure(root=True))  # type: ignore[arg-type]
    for part in ("paper's 3 GB/s\n(about 3.3x)", "paper's 10 GB/s\n(about 11x)", "not measured", "ρ = 0.5"):
        assert part in text


def test_no_tick_for_no_throttle_where_it_was_not_measured(tmp_path: Path) -> None:
    assert "throttle" not in panel(tmp_path, [1, 2]).get_xticklabels()[-1].get_text()


def test_curves_bars_and_reference_are_the_rows(tmp_path: Path) -> None:
    rows = full([1.0] * 2) + curve("qcfuse", {1: [2.0] * 2, 8: [0.5] * 2})
    (ax,) = fig13.draw(frame_of(rows, tmp_path), {}).axes
    drawn = [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]  # type: ignore[arg-type]
    (line,) = [one for one in drawn if to_hex(one.get_color()) == styles(["qcfuse"])["qcfuse"].colour.lower()]
    assert list(line.get_xdata()) == [1.0, 8.0]  # type: ignore[arg-type]
    assert list(line.get_ydata()) == [2.0, 0.5]  # type: ignore[arg-type]
    # selection is 0.3 of TTFT in these rows
    assert [bar.get_height() for bar in ax.containers[-1]] == pytest.approx([0.6, 0.15])
    rings = [one for one in ax.lines if one.get_fillstyle() == "none"]
    assert [(float(r.get_xdata()[0]), float(r.get_ydata()[0])) for r in rings] == [  # type: ignore[index]
        (pytest.approx(4), 1.0)
    ]


@pytest.mark.parametrize("name", ["fig01", "fig09", "fig13"])
def test_experiments_resolve(name: str) -> None:
    assert {"tiny", "smoke", "cpu", "paper"} <= set(profiles(name))
    for profile in profiles(name):
        sweep_ = resolve(name, profile)
        assert sweep_.store == "disk"
        assert len(sweep_.rho) == 1
    assert resolve("fig09", "tiny").shown == 2
