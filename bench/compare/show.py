"""A method's standing on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.compare.beside import Beside
from bench.compare.standing import Standing
from bench.figures.style import variant_label


def show(beside: Beside, standing: Standing, console: Console) -> None:
    """Print where the method stands: rank, Pareto front, wins and losses by dataset, loads before fusion."""
    say = console.out
    say(f"Your method: {standing.method}", highlight=False)
    for line in [*headline(standing), *beside.scaling]:
        console.print(line, markup=False, highlight=False)
    console.print(_duels(standing))
    console.print(_loads(standing))
    for warning in warnings(beside, standing):
        console.print(f"ALARM: {warning}", style="bold red", markup=False)


def warnings(beside: Beside, standing: Standing) -> list[str]:
    """What makes the comparison worth less, a sentence each."""
    found = [*beside.unsteady, *standing.left_out]
    if standing.failed:
        found.insert(
            0, f"{standing.failed} rows of {standing.method} were not measured; it is judged on the rest"
        )
    return found


def headline(standing: Standing) -> list[str]:
    """Rank at each rho, and on which datasets its points are on the Pareto front, a sentence each."""
    found = [
        f"{rank.model}, rho {rank.rho:g}: mean score {rank.score.text('.3f')}, "
        f"place {rank.place} of {rank.among}"
        for rank in standing.ranks
    ]
    several = len({rank.model for rank in standing.ranks}) > 1
    for front in standing.fronts:
        where = f"{front.model}, {front.dataset}" if several else front.dataset
        place = "on the Pareto front" if front.behind is None else f"behind {front.behind}"
        found.append(
            f"{where}, rho {front.rho:g}: score {front.score:.3f}, "
            f"{front.speedup:.2f}x as fast as full prefill, {place}"
        )
    return found


def _duels(standing: Standing) -> Table:
    table = Table(
        "dataset", "rho", "against", "score", "", "time", box=None, title_justify="left",
        title="Score: yours minus the other's; time: the other's TTFT over yours; 95 % intervals",
    )  # fmt: skip
    colours = {"better": "green", "worse": "red", "level": "default", "unknown": "dim"}
    several = len({duel.model for duel in standing.duels}) > 1
    for duel in standing.duels:
        where = f"{duel.model}, {duel.dataset}" if several else duel.dataset
        table.add_row(
            escape(where), f"{duel.rho:g}", escape(variant_label(duel.other, duel.other)),
            escape(duel.score.text("+.3f")), f"[{colours[duel.verdict]}]{duel.verdict}[/]",
            escape(duel.speed.text(".2f") + "x"),
        )  # fmt: skip
    return table


def _loads(standing: Standing) -> Table:
    table = Table("method", "MB before fusion", "of the cache", box=None, title_justify="left",
                  title="Read before the first position can be recomputed")  # fmt: skip
    means: dict[str, list[tuple[float, float]]] = {}
    for load in standing.loads:
        means.setdefault(load.method, []).append((load.before_fusion, load.share))
    for method, pairs in means.items():
        size, share = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        table.add_row(escape(variant_label(method, method)), f"{size / 1e6:.2f}", f"{share:.1%}")
    return table
