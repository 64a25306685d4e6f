"""The report of fig13: TTFT against the store's bandwidth, and where it crosses full prefill's."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figures import fig13
from bench.figures.style import order, variant_label
from bench.results.bandwidth_claim import judge
from bench.results.crossing import ABOVE, BELOW, Crossing, crossing_table, crossings
from bench.results.points import PANEL
from bench.results.run_folder import RunFolder
from bench.results.stages import write_csv
from bench.results.summary import summarise, write_summary_csv
from bench.results.table import print_remarks, seconds

NO_CROSSING = "no crossing to compute: it takes full prefill and rows under a throttle, of the same requests"
NOTE = (
    "TTFT: median. Crossing: where the median meets full prefill's, linear in (log bandwidth, TTFT) between "
    "measured bandwidths. [ ]: 95 % interval over requests."
)


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write fig13 (png, svg), crossings.csv and summary.csv into `out`, print the tables to `console`."""
    summary = summarise(run.frame, over="bandwidth")
    found = crossings(run.frame)
    for (model, dataset), points in summary.groupby(PANEL):
        where = f"{model}, {dataset}"
        console.print(_times(where, points))
        some = [one for one in found if (one.model, one.dataset) == (model, dataset)]
        console.print(_crossings(where, some) if some else f"{where}: {NO_CROSSING}")
    console.print(NOTE, style="dim", markup=False)
    for judged in judge(found):
        console.print(judged.sentence, markup=False)
    print_remarks(run.frame, run.info, console)
    return [
        *fig13.plot(run.frame, run.info, out, summary, found),
        write_csv(crossing_table(found), out / "crossings.csv"),
        write_summary_csv(run.frame, out / "summary.csv", summary),
    ]


def _times(where: str, points: pd.DataFrame) -> Table:
    table = Table(title=f"{escape(where)}: TTFT (of it selection) by bandwidth", title_justify="left")
    table.add_column("bandwidth", no_wrap=True)
    lines = [
        (method, variant)
        for method in order(points["method"].unique())
        for variant in sorted(points.loc[points["method"] == method, "variant"].unique())
    ]
    for method, variant in lines:
        table.add_column(escape(variant_label(method, variant)), justify="right")
    for bandwidth in points.sort_values("bandwidth_bytes_per_s")["bandwidth"].unique():
        at = points[points["bandwidth"] == bandwidth].set_index("variant").to_dict("index")
        cells = [_cell(at[variant]) if variant in at else "" for _, variant in lines]
        table.add_row(bandwidth if bandwidth != "none" else "no throttle", *cells)
    return table


def _cell(line: dict[str, float]) -> str:
    if not line["n"]:
        return "failed" if line["n_failed"] else "skipped"
    select = f" ({seconds(line['select_s'])})" if line["select_s"] > 0 else ""
    return seconds(line["ttft_s"]) + select


def _crossings(where: str, found: list[Crossing]) -> Table:
    table = Table(title=f"{escape(where)}: crossing with full prefill", title_justify="left")
    for name in ("method", "crossing", "95 % interval", "draws below / inside / above", "n"):
        table.add_column(name)
    ordered = order({one.method for one in found})
    lines = crossing_table(found).to_dict("records")
    for one, line in sorted(zip(found, lines, strict=True), key=lambda pair: ordered.index(pair[0].method)):
        low, high = (_bound(position, one) for position in one.interval)
        shares = [line[f"share_{side}"] for side in ("below", "inside", "above")]
        table.add_row(
            escape(variant_label(one.method, one.variant)),
            one.words,
            "-" if one.n < 2 else escape(f"[{low}, {high}]"),
            "-" if one.n < 2 else " / ".join(f"{share:.0%}" for share in shares),
            str(one.n),
        )
    return table


def _bound(position: float, one: Crossing) -> str:
    if position == BELOW:
        return f"< {one.rates[0] / one.unit:.3g}x"
    if position == ABOVE:
        return f"> {one.rates[-1] / one.unit:.3g}x"
    return f"{position / one.unit:.3g}x"
