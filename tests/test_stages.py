"""Fig. 1: means of stages that add up, shares, and what the picture shows of them."""

from __future__ import annotations

import math
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from rich.console import Console

from bench.figures import fig01
from bench.figures.style import _BUILT_IN, _OTHERS, STAGES
from bench.results.report_stages import print_stages
from bench.results.schema import Row
from bench.results.stages import stages
from tests._bandwidth import full, sweep, throttled, times
from tests._rows import frame_of, make_row, point
from tests.test_figures import words


def two_requests(**fields: object) -> list[Row]:
    """TTFT 1 s and 2 s; select 0.4 and 0.2 s, of it waiting 0.3 and 0.1 s; load 0.1 and 0.5 s."""
    parts = [times(1.0, 0.4, 0.3, 0.1), times(2.0, 0.2, 0.1, 0.5)]
    return [
        make_row(method="prophetkv", request=f"r{i}", **throttled(11) | part | fields)
        for i, part in enumerate(parts)
    ]


def test_parts_are_means_and_add_up(tmp_path: Path) -> None:
    (line,) = stages(frame_of(two_requests(), tmp_path)).to_dict("records")
    assert (line["n"], line["variant"], line["bandwidth"]) == (2, "prophetkv", "11x")
    assert (line["ttft_s"], line["select_s"], line["select_wait_s"]) == pytest.approx((1.5, 0.3, 0.2))
    parts = [line[f"{stage.replace(' ', '_')}_s"] for stage in STAGES]
    assert sum(parts) == pytest.approx(line["ttft_s"])
    shares = [line[f"{stage.replace(' ', '_')}_share"] for stage in STAGES]
    assert shares == pytest.approx([0.2, 0.2, 0.85 / 1.5, 0.05 / 1.5])
    assert line["select_wait_share"] == pytest.approx(0.2 / 1.5)
    # the draws of two requests: twice the first, one of each, twice the second
    assert (line["ttft_low_s"], line["ttft_high_s"]) == (1.0, 2.0)
    assert (line["select_low_share"], line["select_high_share"]) == pytest.approx((0.1, 0.4))


def test_rows_that_do_not_tell_how_long_selection_waited(tmp_path: Path) -> None:
    rows = two_requests(select_wait_s=None)
    (line,) = stages(frame_of(rows, tmp_path / "none")).to_dict("records")
    assert math.isnan(line["select_wait_s"])
    assert line["select_share"] == pytest.approx(0.2)
    mixed = frame_of([rows[0], two_requests()[1]], tmp_path / "some")
    assert math.isnan(stages(mixed)["select_wait_s"].iloc[0])  # a mean over some would not fit the others
    figure = fig01.draw(mixed, {})
    assert "do not tell how long selection waited" in " ".join(words(figure).split())


def test_failed_rows_do_not_enter(tmp_path: Path) -> None:
    rows = [*two_requests(), make_row(method="prophetkv", status="oom", ttft_s=None, request="r9")]
    assert stages(frame_of(rows, tmp_path))["n"].tolist() == [2]


def test_the_picture_has_the_pieces_in_order_and_to_scale(tmp_path: Path) -> None:
    figure = fig01.draw(frame_of(two_requests(), tmp_path), {"profile": "tiny"})
    left, right = figure.axes
    for ax, scale in ((left, 1.5), (right, 1.0)):
        pieces = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_width() > 0]
        ends = [p.get_x() + p.get_width() for p in pieces]
        assert ends == pytest.approx([scale * at / 1.5 for at in (0.1, 0.3, 0.6, 1.45, 1.5)])
        waiting = pieces[1]
        assert waiting.get_hatch()
        assert to_hex(waiting.get_edgecolor()) == STAGES["select"].lower()
        assert to_hex(pieces[2].get_facecolor()) == STAGES["load"].lower()
    text = " ".join(words(figure).split())
    for part in (
        "20%",
        "57%",
        "1.50 s",
        "ρ = 0.3",
        "Store at 11x",
        "n = 2",
        "decoding included",
        "ProphetKV",
    ):
        assert part in text
    assert "3%" not in text.split()  # too narrow for its number


def test_methods_stand_in_the_order_of_every_legend(tmp_path: Path) -> None:
    figure = fig01.draw(frame_of(sweep([11], ("qcfuse", "prophetkv", "direct_reuse"), n=2), tmp_path), {})
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Full prefill", "Direct reuse", "ProphetKV", "QCFuse"]
    low, high = figure.axes[0].get_ylim()
    assert low > high  # from top to bottom


def test_a_panel_without_a_measured_request(tmp_path: Path) -> None:
    rows = [*full([1.0]), make_row(dataset="other", status="failed", ttft_s=None)]
    assert "no measured request" in words(fig01.draw(frame_of(rows, tmp_path), {}))


def test_files_and_table(tmp_path: Path) -> None:
    frame = frame_of([*two_requests(), *full([3.0, 3.0])], tmp_path)
    paths = fig01.plot(frame, {}, tmp_path / "out")
    assert [path.name for path in paths] == ["fig01.png", "fig01.svg"]
    assert all(path.stat().st_size > 5000 for path in paths)
    out = StringIO()
    print_stages(stages(frame), Console(file=out, width=100))
    for part in ("300 ms 20%", "200 ms 13%", "850 ms 57%", "1.50 s", "2.95 s 98%"):
        assert part in out.getvalue()


def test_stages_of_old_rows_without_a_bandwidth(tmp_path: Path) -> None:
    lines = stages(frame_of(point([1.0], [1.0]), tmp_path))
    assert lines["bandwidth"].tolist() == ["none"]
    assert isinstance(lines, pd.DataFrame)
    assert math.isnan(lines["ttft_low_s"].iloc[0])  # n = 1


def test_stages_have_colours_no_method_has() -> None:
    methods = {style.colour for style in _BUILT_IN.values()} | {colour for colour, _ in _OTHERS}
    assert not {colour.upper() for colour in STAGES.values()} & {colour.upper() for colour in methods}
    assert len(set(STAGES.values())) == 4
