"""What is shown beside the numbers: conditions, doubts, effective ratios, best variants, cold prefill."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bench.figures import best, fig01, fig10, fig11, ratio, timeline
from bench.figures.panels import caveats
from bench.reports.pareto import pareto
from bench.reports.run_view import RunView
from bench.reports.tables import headlines, points
from bench.results.aggregate import aggregate
from bench.results.best_variant import best_feet
from bench.results.conditions import conditions, distrust, disturbed, storage
from bench.results.effective import ratio_text
from bench.results.matched import matched_quality
from bench.results.points import alarms, aside, with_variants
from bench.results.report import write_reports
from bench.results.run_folder import RunFolder
from bench.results.schema import Row
from bench.results.shown import Prompt, long_instructions
from bench.results.summary import headline_rho, summarise
from tests._rows import frame_of, grid, make_row, point, write_run
from tests._timelines import record

FULL = {"method": "full_prefill", "rho": 1.0}
DISK = {"bandwidth": "11x", "bandwidth_bytes_per_s": 5.5e7, "bandwidth_unit": 5e6}
CACHED = {"methods": [{"name": "full_prefill", "params": {}, "prefix_cached": True}]}


def words(figure: Figure) -> str:
    artists = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return " ".join(" ".join(a.get_text() for a in artists).split())  # type: ignore[attr-defined]


def modern(**fields: Any) -> list[Row]:
    """A run as fig10 makes it now: disk at 11x, cold prefill, variants, all that a row can tell."""
    rows = grid(n=6)
    cold = [r.model_copy(update={"method": "cold_prefill"}) for r in rows if r.method == "full_prefill"]
    variants = [
        r.model_copy(update={"params": {"mask": "released"}})
        for r in rows
        if r.method in ("cacheblend", "prophetkv")
    ]
    found = []
    for row in [*rows, *cold, *variants]:
        reads = not row.method.endswith("prefill")
        more = {"stopped": "eos", "quotes_instruction": False, "disturbed": False, "rho_effective": row.rho}
        if row.method == "cacheblend":
            more["rho_effective"] = row.rho + 0.06
        if row.metric == "string_match":
            more |= {"precision": 0.75, "evidence_recall": 0.4, "needle_recall": 0.25}
        found.append(row.model_copy(update=more | (DISK if reads else {}) | fields))
    return found


def view(frame: pd.DataFrame, info: dict[str, Any], folder: Path) -> RunView:
    return RunView(RunFolder(folder, frame, info), "run")


def test_storage_is_said(tmp_path: Path) -> None:
    free, throttled = (
        frame_of([make_row()], tmp_path),
        frame_of([make_row(**FULL), make_row(**DISK)], tmp_path),
    )
    assert storage(free, {"sweep": {"store": "memory"}}).startswith("Caches in memory")
    assert storage(free, {"sweep": {"store": "disk"}}) == "Caches on disk, store not throttled."
    assert storage(free, {}) == ""
    said = storage(throttled, {"sweep": {"store": "disk"}})
    assert (
        said == "Caches on disk, store throttled to 11x: 10 GB/s on the paper's H20, computed; 55 MB/s here."
    )
    slow = frame_of([make_row(**DISK | {"bandwidth": "2x"})], tmp_path)
    assert "paper" not in storage(slow, {"sweep": {"store": "disk"}})
    both = frame_of([make_row(), make_row(**DISK)], tmp_path)
    assert "several bandwidths" in storage(both, {"sweep": {"store": "disk"}})


def test_disturbed_requests_are_counted_by_request(tmp_path: Path) -> None:
    rows = [make_row(request=f"r{i}", disturbed=i == 0, times_taken=1 + (i < 2)) for i in range(4)]
    rows += [make_row(request="r0", method="epic", disturbed=True, times_taken=2)]
    assert disturbed(frame_of(rows, tmp_path)) == (
        "1 of 4 requests (25%) timed on a disturbed machine, 2 timed again."
    )
    assert "not recorded" in disturbed(frame_of([make_row()], tmp_path))


def test_doubts_about_the_whole_run() -> None:
    info = {"trust": {"m": {"failed": ["a check"]}, "n": {"failed": []}}, "warnings": ["a warning."]}
    assert distrust(info) == ["model not trusted: m: a check", "a warning"]
    assert distrust({"trust": None, "warnings": None}) == []


def test_doubts_are_red_on_every_figure(tmp_path: Path) -> None:
    info = {"trust": {"model-a": {"failed": ["a check"]}}, "sweep": {"store": "memory"}}
    frame = frame_of(modern(bandwidth="none"), tmp_path)
    summary, feet = summarise(frame), best_feet(frame)[0]
    figures = [
        fig01.draw(frame[frame["rho"].isin([0.0, 0.3, 1.0])], info), fig10.draw(frame, info, summary),
        fig11.draw(frame, info), ratio.draw(frame, info, summary), best.draw(feet, frame, info),
    ]  # fmt: skip
    for figure in figures:
        red = [text.get_text() for text in figure.texts if text.get_color() == "#B00020"]
        assert "model not trusted: model-a: a check" in " ".join(red)
        assert "Caches in memory" in words(figure)


def test_quoting_alarms_beyond_ten_points(tmp_path: Path) -> None:
    rows = [make_row(request=f"r{i}", quotes_instruction=i < 1, **FULL) for i in range(10)]
    rows += [make_row(request=f"r{i}", method="epic", quotes_instruction=i < 3) for i in range(10)]
    rows += [make_row(request=f"r{i}", quotes_instruction=i < 2) for i in range(10)]
    (alarm,) = [text for text in alarms(frame_of(rows, tmp_path)) if "quote" in text]
    assert (
        alarm == "model-a, multihop: 30% of the answers of epic quote the instruction, 10% of full prefill's"
    )


def test_cold_prefill_is_no_reference_and_no_method(tmp_path: Path) -> None:
    frame = frame_of(modern(), tmp_path)
    assert "cold_prefill" not in set(matched_quality(frame, count=10)["method"])
    summary = summarise(frame)
    qcfuse = summary[(summary["method"] == "qcfuse") & (summary["rho"] == 0.3)]
    slower = frame.copy()
    slower.loc[slower["method"] == "cold_prefill", "ttft_s"] *= 9
    again = summarise(slower)
    assert again[(again["method"] == "qcfuse") & (again["rho"] == 0.3)]["speedup"].tolist() == (
        qcfuse["speedup"].tolist()
    )
    assert "Full prefill, nothing cached" in words(fig10.draw(frame, CACHED, summary))


def test_full_prefill_says_its_cache_where_the_run_does(tmp_path: Path) -> None:
    frame = frame_of(modern(), tmp_path)
    assert "Full prefill (S cached)" in words(fig10.draw(frame, CACHED))
    assert "(S cached)" not in words(fig10.draw(frame, {}))
    assert headlines(view(frame, CACHED, tmp_path))[0].lines[0][0].text == "Full prefill (S cached)"


def test_a_throttled_run_is_summarised_as_any_other(tmp_path: Path) -> None:
    plain, throttled = frame_of(modern(bandwidth="none"), tmp_path), frame_of(modern(), tmp_path)
    numbers = ["score", "ttft_s", "speedup", "n", "n_paired"]
    assert summarise(throttled)[numbers].equals(summarise(plain)[numbers])
    assert set(summarise(throttled)["variant"]) == set(summarise(plain)["variant"])
    assert aggregate(throttled).equals(aggregate(plain))
    panels = pareto([view(throttled, {}, tmp_path)])
    assert all(panel["bandwidths"] == ["11x"] for panel in panels)
    beside = {p["method"] for panel in panels for p in panel["points"] if p["bandwidth"] is None}
    assert beside == {"full_prefill", "cold_prefill"}


def test_effective_ratio_is_the_axis_and_nominal_the_label(tmp_path: Path) -> None:
    rows = point([1.0], [4.0], rho_effective=1.0, **FULL)
    for rho in (0.1, 0.3):
        rows += point([rho], [1.0], method="cacheblend", rho=rho, rho_effective=rho + 0.06)
    frame = frame_of(rows, tmp_path)
    (ax,) = ratio.draw(frame, {}, summarise(frame)).axes
    (curve,) = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_zorder() == 3]  # type: ignore[arg-type]
    assert list(curve.get_xdata()) == pytest.approx([0.16, 0.36])  # type: ignore[arg-type]
    assert {"0.1", "0.3"} <= {text.get_text() for text in ax.texts}
    assert (ratio_text(0.3, 0.36), ratio_text(0.3, 0.299), ratio_text(0.3, float("nan"))) == (
        "0.3 (0.36)", "0.3", "0.3",
    )  # fmt: skip


def test_two_recalls_each_says_which_it_is(tmp_path: Path) -> None:
    frame = frame_of(modern(), tmp_path)
    figure = ratio.draw(frame, {}, summarise(frame), "recall")
    assert "answer tokens" in words(figure)
    assert "whole needle" in words(figure)
    assert [ax.get_title() for ax in figure.axes] == [f"ruler/{t} (recall), n = 6" for t in ("mq", "vt")]
    table = points(view(frame, {}, tmp_path))
    line = next(one for one in table.lines if one[2].text == "ruler/mq" and one[0].text == "QCFuse")
    cells = dict(zip(table.columns, (cell.text for cell in line), strict=True))
    assert (cells["recall, answer tokens"], cells["recall, whole needle"]) == ("0.40", "0.25")
    assert cells["precision of numbers"] == "0.75"


def test_variants_of_several_methods_stand_back(tmp_path: Path) -> None:
    frame = frame_of(modern(), tmp_path)
    summary = summarise(frame)
    assert set(summary.loc[aside(summary), "variant"]) == {
        "cacheblend(mask=released)", "prophetkv(mask=released)",
    }  # fmt: skip
    figure = fig10.draw(frame, {}, summary)
    legend = [text.get_text() for one in figure.legends for text in one.get_texts()]
    assert "ProphetKV" in legend
    assert not any("released" in text for text in legend)
    assert "Thin: other parameters than the paper's rule (CacheBlend, ProphetKV)" in words(figure)
    single = summary[summary["method"] != "cacheblend"]
    assert not aside(single).any()


def test_the_papers_rule_has_the_plain_name(tmp_path: Path) -> None:
    rows = [
        make_row(),
        make_row(params={"tokens": "max"}),
        make_row(params={"tokens": "max", "heads": "max"}),
    ]
    names = with_variants(frame_of(rows, tmp_path))["variant"].tolist()
    assert names == ["qcfuse", "qcfuse(tokens=max)", "qcfuse(heads=max,tokens=max)"]


def test_best_foot_by_hand(tmp_path: Path) -> None:
    rows = point([0.5, 0.7], [1.0] * 2) + point([0.8] * 4, [1.0] * 4, dataset="other")
    for params, here, there in (({}, 0.4, 0.5), ({"a": 1}, 0.5, 0.7), ({"a": 2}, 0.1, 0.1)):
        fields: dict[str, Any] = {"method": "prophetkv", "params": params}
        rows += point([here] * 2, [1.0] * 2, **fields)
        rows += point([there] * 4, [1.0] * 4, dataset="other", **fields)
    rows += point([0.1] * 2, [1.0] * 2, method="epic") + point(
        [0.1] * 4, [1.0] * 4, method="epic", dataset="other"
    )
    feet, left_out = best_feet(frame_of(rows, tmp_path))
    assert left_out == []
    prophet = next(foot for foot in feet if foot.baseline == "prophetkv")
    # datasets weigh the same, whatever their n: (0.6 - 0.5 + 0.8 - 0.7) / 2
    assert prophet.gap.value == pytest.approx(0.1)
    assert (prophet.best, prophet.sets, prophet.gap.n, prophet.datasets) == ("a=1", 3, 6, 2)
    assert prophet.rule is not None
    assert prophet.rule.value == pytest.approx(0.25)
    epic = next(foot for foot in feet if foot.baseline == "epic")
    assert (epic.sets, epic.best) == (1, "")


def test_no_variants_no_table(tmp_path: Path) -> None:
    frame = frame_of(grid(n=3), tmp_path)
    assert best_feet(frame) == ([], [])
    assert best.plot([], frame, {}, tmp_path) == []
    assert len(headlines(view(frame, {}, tmp_path))) == 1


def test_best_of_many_equal_variants_shows_no_deficit() -> None:
    """Noise alone: picking the best of eight makes its gap negative; the simultaneous interval keeps 0."""
    kept = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        lines = [("qcfuse", "{}"), *(("prophetkv", "{}" if not i else f'{{"a": {i}}}') for i in range(8))]
        records = [
            make_row(method=method, request=f"r{i}").model_dump() | {"params": params, "score": score}
            for method, params in lines
            for i, score in enumerate(rng.normal(0.5, 0.2, 40))
        ]
        ((foot,), _) = best_feet(pd.DataFrame(records))
        kept += foot.gap.low <= 0 <= foot.gap.high
    assert kept >= 36


def test_terminal_says_it_all(tmp_path: Path) -> None:
    rows = [r.model_copy(update={"stopped": "limit"} if r.request == "r0" else {}) for r in modern()]
    info = CACHED | {"sweep": {"store": "disk"}, "trust": {"model-a": {"failed": ["a check"]}}}
    out = StringIO()
    paths = write_reports(
        write_run(rows, tmp_path / "run", info), tmp_path / "out", Console(file=out, width=110)
    )
    text = " ".join(out.getvalue().split())
    for part in (
        "n = 6", "17 % cut", "0.3 (0.36)", "Full prefill (S cached)", "Full prefill, nothing cached",
        "store throttled to 11x", "0 of 18 requests (0%) timed on a disturbed machine",
        "WARNING: model not trusted: model-a: a check", "QCFuse minus the best published variant",
        "Other parameters than the paper's rule", "precision",
    ):  # fmt: skip
        assert part in text
    assert {"fig10_ratio.png", "fig10_recall.png", "fig10_best.png"} <= {path.name for path in paths}
    read = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert read["at_limit"].round(3).eq(0.167).all()
    assert {"needle_recall", "precision", "rho_effective", "quotes"} <= set(read.columns)


def test_headline_rho_is_the_papers_where_it_was_run() -> None:
    assert headline_rho(pd.DataFrame({"rho": [0.0, 0.1, 0.3, 0.5, 1.0]})) == 0.3
    assert headline_rho(pd.DataFrame({"rho": [0.1, 0.2, 0.4]})) == 0.2
    assert headline_rho(pd.DataFrame({"rho": [1.0]})) == 0.3


def test_panels_of_different_n_weigh_the_same(tmp_path: Path) -> None:
    rows = point([1.0] * 2, [2.0] * 2, **FULL) + point([0.5] * 2, [1.0] * 2)
    rows += point([1.0] * 8, [2.0] * 8, dataset="other", **FULL)
    rows += point([0.9] * 8, [1.0] * 8, dataset="other")
    fused = aggregate(frame_of(rows, tmp_path)).query("method == 'qcfuse'").iloc[0]
    assert fused["quality"] == pytest.approx((0.5 + 0.9) / 2)
    assert conditions(frame_of(rows, tmp_path), {})[-1].endswith("not recorded.")


def test_a_timeline_says_what_to_doubt() -> None:
    figure = timeline.draw([record("full_prefill"), record()], ["model not trusted: m: a check"])
    red = [text.get_text() for text in figure.texts if text.get_color() == "#B00020"]
    assert red == ["WARNING: model not trusted: m: a check."]


def test_long_instructions_are_no_caveat_where_full_prefill_has_them_cached(tmp_path: Path) -> None:
    prompt = Prompt(
        model="m",
        dataset="d",
        request="r",
        instruction=["s"] * 4,
        context=["c"],
        query=["q"],
        chunk_starts=[0],
    )
    (tmp_path / "prompts.jsonl").write_text(prompt.model_dump_json() + "\n", "utf-8")
    assert list(long_instructions(tmp_path)) == ["d"]
    (tmp_path / "run.json").write_text(json.dumps(CACHED), "utf-8")
    assert long_instructions(tmp_path) == {}


def test_what_is_not_what_its_name_suggests_says_so_where_titles_have_no_room() -> None:
    info = {"datasets": {"multihop": {"note": "LongBench-format, not LongBench"}, "ruler/mq": {"note": ""}}}
    assert caveats(["ruler/mq", "multihop"], info) == ["multihop: LongBench-format, not LongBench."]
    assert caveats(["ruler/mq"], info) == []
