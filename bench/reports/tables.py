"""The page's tables as text: the headline, and every operating point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from bench.figures.style import REFERENCES, order
from bench.reports.run_view import RunView
from bench.results.best_table import HEAD, NOTE, TITLE, best_cells
from bench.results.crossing import crossing_table, crossings
from bench.results.effective import differs, effective_of
from bench.results.endings import cut_text
from bench.results.points import FULL_PREFILL, PAPER, aside, family, spread
from bench.results.summary import RHO, headline_rho
from bench.results.table import seconds

__all__ = ["RHO", "Cell", "Table", "headlines", "interval", "number", "points"]


@dataclass(frozen=True)
class Cell:
    """A table's cell: what is read first, and in small print its interval or count."""

    text: str
    small: str = ""


@dataclass(frozen=True)
class Table:
    """A table: its title, a note below it, column titles, and lines whose first cell names the line."""

    title: str
    note: str
    columns: list[str]
    lines: list[list[Cell]]


def headlines(run: RunView) -> list[Table]:
    """What the run found, one table a model; crossings with full prefill where bandwidth was swept."""
    if run.sweeps_bandwidth:
        return [_crossings(run)]
    matched = run.folder.matched
    tables = [_headline(run, str(model), matched) for model in run.frame["model"].unique()]
    return tables + [_best(run, str(model)) for model in run.frame["model"].unique() if _has_best(run, model)]


def points(run: RunView) -> Table:
    """Every operating point: counts, score, TTFT and its parts, bytes, evidence recall."""
    summary = run.summary
    ranks = {name: rank for rank, name in enumerate(order(summary["method"].unique()))}
    lines = []
    for line in sorted(
        summary.to_dict("records"),
        key=lambda one: (
            one["model"],
            one["dataset"],
            ranks[str(one["method"])],
            one["params"] != PAPER,
            one["params"],
            one["rho"],
        ),
    ):
        lines.append(
            [
                Cell(run.labels[line["method"], line["params"]]),
                Cell(str(line["model"])),
                Cell(str(line["dataset"])),
                Cell(f"{line['rho']:g}", _effective(line["rho"], line["rho_effective"])),
                Cell(str(line["bandwidth"])),
                Cell(str(line["n"]), _failed(line)),
                Cell(number(line["score"], ".3f"), interval(line["score_low"], line["score_high"], ".3f")),
                Cell(number(line["at_limit"], ".0%")),
                Cell(number(line["precision"], ".2f")),
                Cell(seconds(line["ttft_s"]), _seconds(line["ttft_low_s"], line["ttft_high_s"])),
                Cell(
                    number(line["speedup"], ".2f", "x"), interval(line["speedup_low"], line["speedup_high"])
                ),
                *(Cell(seconds(line[part])) for part in ("select_s", "load_s", "recompute_s")),
                Cell(number(line["evidence_recall"], ".2f")),
                Cell(number(line["needle_recall"], ".2f")),
                Cell(number(line["bytes_before_fusion"] / 1e6, ".2f")),
            ]
        )
    columns = [
        "method", "model", "dataset", "ρ", "bandwidth", "n", "score", "cut at the limit",
        "precision of numbers", "TTFT", "speed-up", "select", "load wait", "recompute",
        "recall, answer tokens", "recall, whole needle", "MB before fusion",
    ]  # fmt: skip
    note = (
        "Score: mean. TTFT and its parts: median. Speed-up: full prefill's median TTFT / the method's, same "
        "requests. [ ]: 95 % interval over requests. Below ρ: the effective ratio, rows recomputed averaged "
        "over layers, where it is another. Cut: answers that ran into the limit of new tokens. Precision: "
        "share of the numbers given that are right. Recall: share of the evidence's positions recomputed at "
        "the last layer."
    )
    return Table(f"Every operating point ({len(lines)})", note, columns, lines)


def number(value: float | None, form: str = ".2f", unit: str = "") -> str:
    """The number, "–" where it is not known."""
    return "–" if value is None or pd.isna(value) else f"{value:{form}}{unit}"


def interval(low: float, high: float, form: str = ".2f") -> str:
    """ "[0.41, 0.73]", "" where it is not known."""
    return "" if pd.isna(low) or pd.isna(high) else f"[{low:{form}}, {high:{form}}]"


def _headline(run: RunView, model: str, matched: pd.DataFrame) -> Table:
    summary = run.summary[run.summary["model"] == model]
    summary = summary[~aside(summary)]
    rho = headline_rho(summary)
    datasets = [str(name) for name in run.frame["dataset"].unique() if name in set(summary["dataset"])]
    pooled = matched[(matched["model"] == model) & (matched["scope"] != "dataset")]
    by_variant = {str(one["variant"]): one for one in pooled.to_dict("records")}
    shown = summary[summary["method"].isin(REFERENCES) | (summary["rho"] == rho)]
    lines = []
    for method in order(shown["method"].unique()):
        for (variant, params), some in shown[shown["method"] == method].groupby(["variant", "params"]):
            at = {str(one["dataset"]): one for one in some.to_dict("records")}
            small = "" if method in REFERENCES else _effective(rho, effective_of(some))
            cells = [Cell(run.labels[method, str(params)], small)]
            cells.append(_matched(by_variant.get(str(variant)), method, len(datasets)))
            cells += [_score(at.get(name)) for name in datasets]
            lines.append(cells)
    metrics = summary.drop_duplicates("dataset").set_index("dataset")["metric"]
    columns = ["method", "speed-up at full prefill's quality"]
    counts = {name: spread(summary.loc[summary["dataset"] == name, "n"]) for name in datasets}
    columns += [
        f"{name} (n = {counts[name]}): {family(str(metrics[name]))} at ρ = {rho:g}, speed-up"
        for name in datasets
    ]
    note = (
        "Second column: full prefill's median TTFT / the method's where its own curve over ρ reaches full "
        "prefill's mean score minus 0.01, over all datasets; below it the 95 % interval (n.r.: that bound "
        "does not reach it) and the share of bootstrap draws that reach it. Then mean score and speed-up at "
        "one ρ (full prefill: 1, direct reuse: 0), with the score's interval and the share of answers "
        "cut at the limit of new tokens. Where several methods come with other parameters than the paper's "
        "rule, those are among all points."
    )
    return Table(f"{model}", note, columns, lines)


def _matched(line: dict[Any, Any] | None, method: str, datasets: int) -> Cell:
    if line is None:
        return Cell("1x" if method == FULL_PREFILL else "–")
    share = f"{line['reached_share']:.0%} of draws"
    if line["n_panels"] < datasets:
        share += f", on {line['n_panels']} of {datasets} datasets"
    if not line["reached"]:
        return Cell("not reached", share)
    if line["n"] < 2:
        return Cell(f"{line['speedup']:.2f}x", "n = 1")
    low, high = (
        "n.r." if pd.isna(line[name]) else f"{line[name]:.2f}" for name in ("speedup_low", "speedup_high")
    )
    return Cell(f"{line['speedup']:.2f}x", f"[{low}, {high}], {share}")


def _score(line: dict[Any, Any] | None) -> Cell:
    if line is None:
        return Cell("–", "not run")
    if not line["n"]:
        return Cell("failed" if line["n_failed"] else "skipped")
    bounds = interval(line["score_low"], line["score_high"])
    small = ", ".join(filter(None, (bounds, f"n = {line['n']}", cut_text(line["at_limit"]))))
    return Cell(f"{number(line['score'])}, {number(line['speedup'], '.2f', 'x')}", small)


def _has_best(run: RunView, model: object) -> bool:
    return any(foot.model == model for foot in run.folder.best[0])


def _best(run: RunView, model: str) -> Table:
    feet, left_out = run.folder.best
    lines = [[Cell(text) for text in best_cells(foot)] for foot in feet if foot.model == model]
    return Table(f"{model}: {TITLE}", " ".join([NOTE, *left_out]), list(HEAD), lines)


def _effective(rho: float, effective: float) -> str:
    return f"effective {effective:.2f}" if differs(rho, effective) else ""


def _crossings(run: RunView) -> Table:
    found = crossings(run.frame)
    lines = []
    for one, line in zip(found, crossing_table(found).to_dict("records"), strict=True):
        shares = " / ".join(f"{line[f'share_{side}']:.0%}" for side in ("below", "inside", "above"))
        bounds = " to ".join(number(line[f"crossing_{side}_x"], ".3g", "x") for side in ("low", "high"))
        lines.append(
            [
                Cell(_label(run, one.method, one.variant)),
                Cell(f"{one.model}, {one.dataset}"),
                Cell(one.words),
                Cell(bounds, shares) if one.n > 1 else Cell("–"),
                Cell(str(one.n)),
            ]
        )
    note = (
        "The bandwidth of the store from which on a method's median TTFT is at most full prefill's; 1x is "
        "the bandwidth at which loading a request's cache takes as long as its full prefill. Below the "
        "interval (–: that bound lies outside the measured range): shares of bootstrap draws below, inside "
        "and above the range."
    )
    if not lines:
        note += " It takes full prefill and rows under a throttle, of the same requests: there are none."
    return Table(
        "Crossing with full prefill", note, ["method", "where", "crossing", "95 % interval", "n"], lines
    )


def _label(run: RunView, method: str, variant: str) -> str:
    some = run.frame[run.frame["method"] == method]["params"].unique()
    return run.labels[method, str(some[0])] if len(some) == 1 else variant


def _failed(line: dict[Any, Any]) -> str:
    parts = [
        f"{line[key]} {name}" for key, name in (("n_failed", "failed"), ("n_skipped", "skipped")) if line[key]
    ]
    return ", ".join(parts)


def _seconds(low: float, high: float) -> str:
    return "" if pd.isna(low) else f"[{seconds(low)}, {seconds(high)}]"
