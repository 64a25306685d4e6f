"""Figures and reports: files are written, axes are labelled, colours are fixed, nothing breaks."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from rich.console import Console

from bench.errors import UserError
from bench.figures import fig10, fig11
from bench.figures.style import label, order, styles, theme, variant_label
from bench.results.report import write_reports
from bench.results.schema import Row
from tests._rows import FUSION, frame_of, grid, make_row, point, write_run

INFO = {"profile": "tiny", "datasets": {"multihop": {"note": "LongBench-format, not LongBench"}}}


def words(figure: Figure) -> str:
    artists = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return "\n".join(artist.get_text() for artist in artists)  # type: ignore[attr-defined]


def test_fig10_says_what_it_shows(tmp_path: Path) -> None:
    figure = fig10.draw(frame_of(grid(n=3), tmp_path), INFO)
    assert figure.get_supxlabel() == "TTFT, median (s)"
    assert figure.get_supylabel() == "Quality, mean score"
    text = " ".join(words(figure).split())
    for part in (
        "multihop (F1), n = 3 LongBench-format, not LongBench", "ruler/mq (SM), n = 3", "model-a",
        "↖ better",
        "percentile bootstrap", "Profile: tiny", "QCFuse", "Random tokens (control)", "ρ = 0.3",
    ):  # fmt: skip
        assert part in text
    assert "WARNING" not in text


def test_fig11_has_a_panel_a_family(tmp_path: Path) -> None:
    figure = fig11.draw(frame_of(grid(n=3), tmp_path), INFO)
    assert [ax.get_ylabel() for ax in figure.axes] == ["Normalized-F1", "Normalized-SM"]
    assert figure.get_supxlabel() == "Normalised TTFT (full prefill = 1)"


def test_a_curve_joins_its_points_in_rho_order_in_its_colour(tmp_path: Path) -> None:
    rows: list[Row] = point([1.0], [4.0], method="full_prefill", rho=1.0)
    for rho, ttft in ((0.5, 1.0), (0.1, 3.0), (0.3, 2.0)):
        rows += point([rho], [ttft], rho=rho)
    (ax,) = fig10.draw(frame_of(rows, tmp_path), {}).axes
    (curve,) = [line for line in ax.lines if len(line.get_xdata()) == 3]  # type: ignore[arg-type]
    assert list(curve.get_xdata()) == [3.0, 2.0, 1.0]  # type: ignore[arg-type]
    assert to_hex(curve.get_color()) == styles(["qcfuse"])["qcfuse"].colour.lower()


def test_files(tmp_path: Path) -> None:
    frame = frame_of(grid(models=("model-a", "model-b"), datasets=("multihop",), n=2), tmp_path)
    paths = fig10.plot(frame, INFO, tmp_path / "out") + fig11.plot(frame, INFO, tmp_path / "out")
    assert [path.name for path in paths] == ["fig10.png", "fig10.svg", "fig11.png", "fig11.svg"]
    assert all(path.stat().st_size > 5000 for path in paths)


def test_same_rows_same_svg(tmp_path: Path) -> None:
    frame = frame_of(grid(datasets=("multihop",), n=2), tmp_path)
    once, twice = (fig10.plot(frame, INFO, tmp_path / name)[1] for name in "ab")
    assert once.read_bytes() == twice.read_bytes()


FULL = {"method": "full_prefill", "rho": 1.0}
DEGENERATE: dict[str, tuple[list[Row], str]] = {
    "one point": ([make_row(**FULL)], "n = 1"),
    "all zero": ([make_row(**FULL, score=0.0), make_row(score=0.0)], "every score is 0"),
    "no full prefill": ([make_row()], "no full prefill"),
    "only failed": ([make_row(status="failed", score=None, ttft_s=None)], "no measured request"),
    "no time": ([make_row(ttft_s=None)], "no measured request"),
    "hole in the grid": ([make_row(**FULL), make_row(**FULL, model="b", dataset="other")], "not run"),
    "one rho": (grid(datasets=("multihop",), rhos=(0.3,), n=2), "ρ = 0.3"),
    "users' methods": (grid(datasets=("multihop",), methods=("mine", "my_other"), n=2), "my_other"),
    "variants": ([make_row(**FULL), make_row(params={"a": 1}), make_row(params={"a": 2})], "QCFuse (a=2)"),
    "some failed": ([make_row(**FULL), make_row(status="oom", score=None)], "not drawn: qcfuse 1"),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_frames(case: str, tmp_path: Path) -> None:
    rows, expected = DEGENERATE[case]
    out = StringIO()
    paths = write_reports(write_run(rows, tmp_path), tmp_path / "out", Console(file=out, width=100))
    assert len(paths) == 6
    assert all(path.exists() for path in paths)
    assert expected in words(fig10.draw(frame_of(rows, tmp_path), {}))


def test_legend_is_off_the_data(tmp_path: Path) -> None:
    with mpl.rc_context():
        theme()
        figure = fig10.draw(frame_of(grid(n=2), tmp_path), INFO)
        figure.draw_without_rendering()
    panels = [ax.get_tightbbox() for ax in figure.axes]
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert box.y1 <= figure.bbox.y1 + 1
        assert all(panel is not None and box.y0 > panel.y1 - 1 for panel in panels)


def test_table(tmp_path: Path) -> None:
    rows = [*grid(n=8), make_row(request="r99", status="failed", score=None, ttft_s=None, error="boom [x]")]
    rows += point([0.0], [1.0], dataset="zero", **FULL)
    out = StringIO()
    write_reports(write_run(rows, tmp_path, INFO), tmp_path / "out", Console(file=out, width=100))
    text = out.getvalue()
    for part in (
        "QCFuse", "not reached", "1 failed", "1 x qcfuse: boom [x]", "ALARM: model-a, zero",
        "multihop: LongBench-format, not LongBench", "1.00x",
    ):  # fmt: skip
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_report_of_no_rows(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no row"):
        write_reports(write_run([], tmp_path), tmp_path / "out", Console(file=StringIO()))


def test_built_in_styles_are_distinct_and_fixed() -> None:
    names = ["full_prefill", "direct_reuse", *FUSION]
    look = styles(names)
    assert len({style.colour for style in look.values()}) == len(names)
    assert len({style.marker for style in look.values()}) == len(names)
    assert styles(["qcfuse", "mine"])["qcfuse"] == look["qcfuse"]
    assert label("qcfuse") == "QCFuse"
    assert variant_label("qcfuse", "qcfuse(a=1)") == "QCFuse (a=1)"


@given(st.sets(st.text("abc", min_size=1, max_size=4), max_size=6), st.randoms())
def test_users_styles_do_not_depend_on_order(names: set[str], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(names)
    random.shuffle(shuffled)
    assert styles(shuffled) == styles(names)
    assert len({style.colour for style in styles(names).values()}) == len(names)
    assert order([*shuffled, "qcfuse"])[0] == "qcfuse"


@pytest.mark.parametrize("width", [80, 100])
def test_no_speedup_is_cut_off(tmp_path: Path, width: int) -> None:
    """One method reaches full prefill's quality, another, with a long name, never does."""
    worse = [row for row in grid(n=8) if row.method in ("full_prefill", "direct_reuse", "qcfuse")]
    never = [
        row.model_copy(update={"method": "random_tokens", "score": 0.0})
        for row in worse
        if row.method == "qcfuse"
    ]
    out = StringIO()
    run = write_run([*worse, *never], tmp_path, INFO)
    write_reports(run, tmp_path / "out", Console(file=out, width=width))
    matched = out.getvalue().split("at matched quality")[1]
    assert "Random tokens (control)" in matched
    assert "x [" in matched
    assert "…" not in matched
