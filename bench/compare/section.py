"""The page's first section when a new method is compared: "your method"."""

from __future__ import annotations

from typing import Any

from bench.compare.beside import Beside
from bench.compare.show import headline, warnings
from bench.compare.standing import Standing
from bench.figures.style import variant_label
from bench.reports.tables import RHO, Cell, Table, interval, number


def section(beside: Beside, standing: Standing) -> dict[str, Any]:
    """Name, sentences on rank and front, warnings, a table of duels for each rho (the one nearest to the
    headline's first), and what is loaded before fusion."""
    rhos = sorted({duel.rho for duel in standing.duels}, key=lambda rho: abs(rho - RHO))
    return {
        "name": standing.method,
        "sentences": [*headline(standing), *beside.scaling],
        "warnings": warnings(beside, standing),
        "duels": [_duels(standing, rho) for rho in rhos],
        "loads": _loads(standing),
    }


def _duels(standing: Standing, rho: float) -> Table:
    lines = [
        [
            Cell(variant_label(duel.other, duel.other)),
            Cell(duel.model),
            Cell(duel.dataset),
            Cell(duel.verdict),
            Cell(number(duel.score.value, "+.3f"), interval(duel.score.low, duel.score.high, "+.3f")),
            Cell(duel.speed.text(".2f") + "x"),
            Cell(str(duel.score.n)),
        ]
        for duel in sorted(standing.duels, key=lambda duel: (duel.model, duel.dataset))
        if duel.rho == rho
    ]
    return Table(
        f"{standing.method} at ρ {rho:g} against every other method",
        "Score: yours minus the other's, over the same requests, with its 95 % interval; better and worse: "
        "that interval leaves 0 out. Time: the other's median TTFT over yours, above 1 yours is faster.",
        ["against", "model", "dataset", "yours is", "score", "time", "n"],
        lines,
    )


def _loads(standing: Standing) -> Table:
    lines = [
        [
            Cell(variant_label(load.method, load.method)),
            Cell(load.model),
            Cell(load.dataset),
            Cell(f"{load.before_fusion / 1e6:.2f} MB"),
            Cell(f"{load.share:.1%}"),
        ]
        for load in standing.loads
    ]
    return Table(
        "Read before the first position can be recomputed",
        "Cached keys and values, mean over requests; the share is of all that a request reads.",
        ["method", "model", "dataset", "before fusion", "of the cache"],
        lines,
    )
