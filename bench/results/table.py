"""The terminal table: what was measured, and how much faster at matched quality."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figures.style import full_label, order, variant_label
from bench.results.answers import answers_table
from bench.results.conditions import conditions, distrust, instruction_cached
from bench.results.effective import effective_of, ratio_text
from bench.results.endings import cut_text
from bench.results.matched import matched_quality
from bench.results.points import alarms, answers_lost, aside, dataset_notes, spread
from bench.results.summary import summarise

DATASET_WIDTH, CUT_WIDTH = 22, 9
"""Characters of a dataset's column; with them 100 columns hold three. And of what cut answers add to it."""


def print_table(
    frame: pd.DataFrame, run_info: dict[str, Any], console: Console,
    summary: pd.DataFrame | None = None, matched: pd.DataFrame | None = None,
) -> None:  # fmt: skip
    """Print, for each model, quality, TTFT and speed-up at each rho, then those at matched quality, then how
    answers ended and what was recalled. `print_remarks` prints what must stand below. `summary` is
    `summarise(frame)`, `matched` `matched_quality(frame)`, where the caller has them already.
    """
    points = summarise(frame) if summary is None else summary
    matched = matched_quality(frame) if matched is None else matched
    datasets = list(frame["dataset"].unique())
    back = aside(points)
    if back.any():
        matched = matched[~matched["variant"].isin(points.loc[back, "variant"].unique())]
        points = points[~back]
    cut = bool((points["at_limit"] > 0).any())
    each = max(1, (console.width - 40) // (DATASET_WIDTH + CUT_WIDTH * cut))
    cached = instruction_cached(run_info)
    for model in frame["model"].unique():
        for start in range(0, len(datasets), each):
            shown = datasets[start : start + each]
            console.print(_points(points[points["model"] == model], model, shown, cached))
        console.print(_matched(matched, model, datasets, console.width))
        answers = answers_table(points[points["model"] == model], model, cached)
        if answers is not None:
            console.print(answers)
    if back.any():
        console.print("Other parameters than the paper's rule: in summary.csv and on the page.", style="dim")
    if frame["model"].nunique() > 1:
        console.print(_matched(matched, "", [], console.width))
    console.print(
        "Score: mean; cut: share of answers that ran into the limit of new tokens. ρ (effective): rows "
        "recomputed, mean over layers, where that is another. TTFT: median. "
        "Speed-up: full prefill's median TTFT / the method's, same requests. "
        "[ ]: 95 % interval over requests; n.r. where that bound does not reach the quality. "
        "(%): share of bootstrap draws that reach it. (2 of 3): on so many of the datasets.",
        style="dim",
        markup=False,
    )


def _points(points: pd.DataFrame, model: str, datasets: list[str], cached: bool) -> Table:
    table = Table(title=f"{escape(model)}: score, TTFT, speed-up", title_justify="left")
    table.add_column("method", no_wrap=True, overflow="ellipsis", max_width=28)
    table.add_column("ρ", justify="right", no_wrap=True)
    for dataset in datasets:
        n = spread(points.loc[points["dataset"] == dataset, "n"])
        table.add_column(f"{escape(dataset)}\nn = {n}", justify="right", no_wrap=True)
    for method in order(points["method"].unique()):
        of_method = points[points["method"] == method]
        for (variant, rho), some in of_method.groupby(["variant", "rho"]):
            by_dataset = {line["dataset"]: line for line in some.to_dict("records")}
            cells = [_cell(by_dataset.get(dataset)) for dataset in datasets]
            name = full_label(variant_label(method, str(variant)), cached)
            table.add_row(escape(name), ratio_text(float(str(rho)), effective_of(some)), *cells)
        table.add_section()
    return table


def _matched(matched: pd.DataFrame, model: str, datasets: list[str], width: int) -> Table:
    over = "all models" if not model else "all datasets"
    title = f"{escape(model) or 'All models'}: speed-up over full prefill at matched quality (within 0.01)"
    table = Table(title=title, title_justify="left")
    table.add_column("method", no_wrap=True, overflow="ellipsis", max_width=32)
    scope = matched[(matched["model"] == model) & (matched["scope"] != "dataset")]
    single = matched[(matched["model"] == model) & (matched["scope"] == "dataset")]
    # one line for each (method, dataset) where the columns would not fit side by side
    fits = 26 + 27 * (len(datasets) + 1) <= width
    shown = datasets if len(datasets) > 1 else []
    names = [over, *shown]
    for name in names if fits else ["over", "speed-up"]:
        table.add_column(escape(name), no_wrap=True)
    for method in order(scope["method"].unique()):
        for variant in scope.loc[scope["method"] == method, "variant"].unique():
            label = escape(variant_label(method, variant))
            pooled = scope[scope["variant"] == variant].to_dict("records")
            own = single[single["variant"] == variant].to_dict("records")
            lines = {over: pooled[0]} | {str(line["dataset"]): line for line in own}
            if model and pooled[0]["n_panels"] < len(datasets):
                label += f" ({pooled[0]['n_panels']} of {len(datasets)})"
            if fits:
                table.add_row(label, *(_speedup(lines.get(name)) for name in names))
            elif not any(line["reached_share"] for line in lines.values()):
                table.add_row(label, f"{over} and each", _speedup(pooled[0]))
                table.add_section()
            else:
                for name in names:
                    table.add_row(label if name == over else "", escape(name), _speedup(lines.get(name)))
                table.add_section()
    return table


def _cell(line: dict[Any, Any] | None) -> str:
    if line is None:
        return "-"
    if not line["n"]:
        return "[red]failed[/red]" if line["n_failed"] else "skipped"
    parts = [
        _number(line["score"], "{:.3f}"),
        cut_text(line["at_limit"]),
        seconds(line["ttft_s"]),
        _number(line["speedup"], "{:.2f}x"),
    ]
    return " ".join(filter(None, parts))


def _speedup(line: dict[Any, Any] | None) -> str:
    if line is None:
        return "-"
    share = f" ({line['reached_share']:.0%})"
    if not line["reached"]:
        return f"not reached{share}"
    if line["n"] < 2:
        return f"{line['speedup']:.2f}x (n = 1)"
    low, high = (_number(line[name], "{:.2f}", "n.r.") for name in ("speedup_low", "speedup_high"))
    return f"{line['speedup']:.2f}x " + escape(f"[{low}, {high}]") + share


def _number(value: float, form: str, missing: str = "-") -> str:
    return missing if pd.isna(value) else form.format(value)


def seconds(value: float) -> str:
    """ "1.23 s", "456 ms", "-" where it is not known."""
    if pd.isna(value):
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def print_remarks(frame: pd.DataFrame, run_info: dict[str, Any], console: Console) -> None:
    """Print the counts of rows by status, errors, the run's conditions, the datasets' notes, and alarms."""
    counts = frame["status"].value_counts()
    console.print(", ".join(f"{counts.get(name, 0)} {name}" for name in ("ok", "failed", "oom", "skipped")))
    bad = frame[frame["status"].isin(["failed", "oom"])]
    for (method, error), rows in bad.fillna({"error": "no message"}).groupby(["method", "error"]):
        first = (str(error).splitlines() or [""])[0]
        console.print(f"  {len(rows)} x {method}: {first}", style="red", markup=False)
    for text in conditions(frame, run_info):
        console.print(text, markup=False, highlight=False)
    for dataset, note in dataset_notes(run_info).items():
        console.print(f"{dataset}: {note}", markup=False)
    for dataset, share in answers_lost(run_info).items():
        console.print(f"{dataset}: {share:.0%} of the samples lost their answer to truncation", markup=False)
    for text in distrust(run_info):
        console.print(f"WARNING: {text}", style="bold red", markup=False)
    for alarm in alarms(frame):
        console.print(f"ALARM: {alarm}", style="bold red", markup=False)
