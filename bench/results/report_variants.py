"""The report of `faithfulness`: every method, variant and control at one rho, as a table and as a page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.assets.cache import write_atomically
from bench.figures.style import variant_label
from bench.metrics.bootstrap import Interval
from bench.results.run_folder import RunFolder
from bench.results.summary import write_summary_csv
from bench.results.table import print_remarks
from bench.results.variants import CONTROLS, VariantLine, variant_lines

HEAD = ("method", "variant", "score", "against the paper's rule", "evidence recall")


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write variants.md (a model after the other) and summary.csv into `out`, print the tables."""
    texts = []
    for (model, rho), rows in swept(run).groupby(["model", "swept"]):
        lines = variant_lines(rows, run.info)
        title = f"{model}, rho {rho:g}, {', '.join(rows['dataset'].unique())}: {lines[0].score.n} requests"
        print_lines(title, lines, console)
        texts.append(markdown(title, lines))
    print_remarks(run.frame, run.info, console)
    page = out / "variants.md"
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(page, "\n".join(texts))
    return [page, write_summary_csv(run.frame, out / "summary.csv")]


def swept(run: RunFolder) -> pd.DataFrame:
    """The rows with the column `swept`: the ratio of the sweep that they belong to.

    Those with a ratio of their own (full prefill, direct reuse, EPIC's fixed k) belong to each.
    """
    frame = run.frame
    rhos = run.info.get("sweep", {}).get("rho") or sorted(set(frame["rho"]) - {0.0, 1.0})
    own = ~frame["rho"].isin(rhos)
    parts = [frame[own | (frame["rho"] == rho)].assign(swept=rho) for rho in rhos]
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found


def print_lines(title: str, lines: list[VariantLine], console: Console) -> None:
    """Print the lines as a table, and below it where a variant changes the ranking."""
    table = Table(*HEAD, title=escape(title), title_justify="left", box=None)
    for line in lines:
        table.add_row(*map(escape, _cells(line)))
    console.print(table)
    for text in changes(lines):
        console.print(text, markup=False, highlight=False)


def markdown(title: str, lines: list[VariantLine]) -> str:
    """The same as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *(_cells(line) for line in lines)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    listed = "\n".join(f"- {text}" for text in changes(lines))
    return f"### {title}\n\n{table}\n\n{listed}\n"


def changes(lines: list[VariantLine]) -> list[str]:
    """One sentence for each variant that changes the ranking of the methods by the paper's rules."""
    found = []
    for line in lines:
        for other, gap in line.overtakes.items():
            word = "above" if gap.value > 0 else "below" if gap.value < 0 else "level with"
            sure = gap.low > 0 or gap.high < 0
            found.append(
                f"{_name(line)} with {line.variant} is {word} {variant_label(other, other)} "
                f"(difference {_signed(gap)}{'' if sure else ', its interval includes 0'}), "
                "by the paper's rule it is not"
            )
    return found or ["No variant changes the ranking of the methods."]


def _cells(line: VariantLine) -> tuple[str, ...]:
    what = line.variant or ("control" if line.method in CONTROLS else "paper")
    recall = "-" if pd.isna(line.recall) else f"{line.recall:.2f}"
    change = "" if line.change is None else _signed(line.change)
    return _name(line), what, _interval(line.score, ".3f"), change, recall


def _name(line: VariantLine) -> str:
    return variant_label(line.method, line.method)


def _signed(interval: Interval) -> str:
    return _interval(interval, "+.3f")


def _interval(interval: Interval, form: str) -> str:
    return f"{interval.value:{form}} [{interval.low:{form}}, {interval.high:{form}}]"
