"""The table of QCFuse against each baseline's best parameter set, as cells of text for terminal and page."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figures.style import label
from bench.results.best_variant import BestFoot

TITLE = "QCFuse minus the best published variant of each baseline, mean score over all datasets"
HEAD = ("ρ", "baseline", "best of", "QCFuse minus it", "QCFuse minus the paper's rule", "n")
NOTE = (
    "The best is picked after the fact, among all parameter sets of the baseline in this run; the 95 % "
    "intervals are simultaneous over them. Datasets weigh the same. In the last column but one each "
    "baseline is at the paper's rule."
)


def best_cells(foot: BestFoot) -> tuple[str, ...]:
    """A line of the table, in the order of `HEAD`."""
    rule = "–" if foot.rule is None else foot.rule.text("+.3f")
    best = f"{foot.sets}: {foot.best or 'paper’s rule'}" if foot.sets > 1 else "1: no variant measured"
    return f"{foot.rho:g}", label(foot.baseline), best, foot.gap.text("+.3f"), rule, str(foot.gap.n)


def print_best(feet: list[BestFoot], left_out: list[str], console: Console) -> None:
    """Print the table, one a model, and what was left out of it; nothing where no baseline has variants."""
    for model in dict.fromkeys(foot.model for foot in feet):
        table = Table(*HEAD, title=f"{escape(model)}: {TITLE}", title_justify="left")
        for foot in feet:
            if foot.model == model:
                table.add_row(*map(escape, best_cells(foot)))
        console.print(table)
    if feet:
        console.print(NOTE, style="dim", markup=False)
    for text in left_out if feet else ():
        console.print(text, markup=False, highlight=False)
