"""The terminal table: what was measured, and how much faster at matched quality."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figures.style import order, variant_label
from bench.results.matched import matched_quality
from bench.results.points import alarms, answers_lost, dataset_notes
from bench.results.summary import summarise

DATASET_WIDTH = 22
"""Characters of a dataset's column; with them 100 columns hold three."""


def print_table(
    frame: pd.DataFrame, run_info: dict[str, Any], console: Console,
    summary: pd.DataFrame | None = None, matched: pd.DataFrame | None = None,
) -> None:  # fmt: skip
    """Print, for each model, quality, TTFT and speed-up at each rho, then those at matched quality.

    Below come the counts of failed and skipped rows, the datasets' notes, and an alarm for each
    (model, dataset) whose scores tell nothing. `summary` is `summarise(frame)`, `matched`
    `matched_quality(frame)`, where the caller has them already.
    """
    points = summarise(frame) if summary is None else summary
    matched = matched_quality(frame) if matched is None else matched
    datasets = list(frame["dataset"].unique())
    each = max(1, (console.width - 34) // DATASET_WIDTH)
    for model in frame["model"].unique():
        for start in range(0, len(datasets), each):
            console.print(_points(points[points["model"] == model], model, datasets[start : start + each]))
        console.print(_matched(matched, model, datasets, console.width))
    if frame["model"].nunique() > 1:
        console.print(_matched(matched, "", [], console.width))
    console.print(
        "Score: mean. TTFT: median. Speed-up: full prefill's median TTFT / the method's, same requests. "
        "[ ]: 95 % interval over requests; n.r. where that bound does not reach the quality. "
        "(%): share of bootstrap draws that reach it. (2 of 3): on so many of the datasets.",
        style="dim",
        markup=False,
    )
    print_remarks(frame, run_info, console)


def _points(points: pd.DataFrame, model: str, datasets: list[str]) -> Table:
    table = Table(title=f"{escape(model)}: score, TTFT, speed-up", title_justify="left")
    table.add_column("method", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("ρ", justify="right", no_wrap=True)
    for dataset in datasets:
        table.add_column(escape(dataset), justify="right", no_wrap=True)
    for method in order(points["method"].unique()):
        of_method = points[points["method"] == method]
        for (variant, rho), some in of_method.groupby(["variant", "rho"]):
            by_dataset = {line["dataset"]: line for line in some.to_dict("records")}
            cells = [_cell(by_dataset.get(dataset)) for dataset in datasets]
            table.add_row(escape(variant_label(method, str(variant))), f"{rho:g}", *cells)
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
    parts = [_number(line["score"], "{:.3f}"), seconds(line["ttft_s"]), _number(line["speedup"], "{:.2f}x")]
    return " ".join(parts)


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
    """Print the counts of rows by status, errors, the datasets' notes, and alarms."""
    counts = frame["status"].value_counts()
    console.print(", ".join(f"{counts.get(name, 0)} {name}" for name in ("ok", "failed", "oom", "skipped")))
    bad = frame[frame["status"].isin(["failed", "oom"])]
    for (method, error), rows in bad.fillna({"error": "no message"}).groupby(["method", "error"]):
        first = (str(error).splitlines() or [""])[0]
        console.print(f"  {len(rows)} x {method}: {first}", style="red", markup=False)
    for dataset, note in dataset_notes(run_info).items():
        console.print(f"{dataset}: {note}", markup=False)
    for dataset, share in answers_lost(run_info).items():
        console.print(f"{dataset}: {share:.0%} of the samples lost their answer to truncation", markup=False)
    for alarm in alarms(frame):
        console.print(f"ALARM: {alarm}", style="bold red", markup=False)
