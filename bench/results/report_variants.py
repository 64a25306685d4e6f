"""The report of `faithfulness`: every method, variant and control at one rho, as a table and as a page."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.assets.cache import write_atomically
from bench.errors import UserError
from bench.figures.style import variant_label
from bench.results.run_folder import RunFolder
from bench.results.summary import write_summary_csv
from bench.results.table import print_remarks
from bench.results.variants import CONTROLS, VariantLine, variant_lines

HEAD = (
    "method",
    "variant",
    "score",
    "against the paper's rule",
    "recall, answer tokens",
    "recall, whole needle",
)


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write variants.md (a model after the other) and summary.csv into `out`, print the tables."""
    texts = []
    for (model, rho), rows in swept(run).groupby(["model", "swept"]):
        lines, left_out = variant_lines(rows, run.info)
        if not lines or not lines[0].score.n:
            raise UserError(
                f"{run.path}: at rho {rho:g} no request was measured under all methods; see its errors.log"
            )
        title = f"{model}, rho {rho:g}, {', '.join(rows['dataset'].unique())}: {lines[0].score.n} requests"
        print_lines(title, lines, left_out, console)
        texts.append(markdown(title, lines, left_out))
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
    if not rhos:
        raise UserError(f"{run.path}: neither its run.json nor its rows name a recomputation ratio")
    own = ~frame["rho"].isin(rhos)
    parts = [frame[own | (frame["rho"] == rho)].assign(swept=rho) for rho in rhos]
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found


def print_lines(title: str, lines: list[VariantLine], left_out: list[str], console: Console) -> None:
    """Print the lines as a table, and below it where a variant changes the ranking."""
    table = Table(*HEAD, title=escape(title), title_justify="left", box=None)
    for line in lines:
        table.add_row(*map(escape, _cells(line)))
    console.print(table)
    for text in [*changes(lines), *left_out]:
        console.print(text, markup=False, highlight=False)


def markdown(title: str, lines: list[VariantLine], left_out: list[str]) -> str:
    """The same as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *(_cells(line) for line in lines)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    listed = "\n".join(f"- {text}" for text in [*changes(lines), *left_out])
    return f"### {title}\n\n{table}\n\n{listed}\n"


def changes(lines: list[VariantLine]) -> list[str]:
    """One sentence for each variant that changes the ranking of the methods by the paper's rules."""
    found = []
    for line in lines:
        for other, gap in line.overtakes.items():
            word = "above" if gap.value > 0 else "below"
            sure = gap.low > 0 or gap.high < 0
            found.append(
                f"{_name(line)} with {line.variant} is {word} {variant_label(other, other)} "
                f"(difference {gap.text('+.3f')}{'' if sure else ', its interval includes 0'}), "
                "by the paper's rule it is not"
            )
    return found or ["No variant changes the ranking of the methods."]


def _cells(line: VariantLine) -> tuple[str, ...]:
    what = line.variant or ("control" if line.method in CONTROLS else "paper")
    recalls = ("-" if pd.isna(value) else f"{value:.2f}" for value in (line.recall, line.needle))
    change = "" if line.change is None else line.change.text("+.3f")
    return _name(line), what, line.score.text(".3f"), change, *recalls


def _name(line: VariantLine) -> str:
    return variant_label(line.method, line.method)
