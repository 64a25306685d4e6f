"""Whether a verdict rests on one model and dataset: every panel alone, and all but one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.claims.panel import Panel
from bench.claims.verdict import INCONCLUSIVE, NOT_REPRODUCED, PARTLY, PARTLY_NOT, REPRODUCED, PanelEstimate

Judged = Callable[[Sequence[Panel]], tuple[str, str, int]]
"""From panels: where their interval lies, number and interval in words, requests."""


@dataclass(frozen=True)
class Panels:
    """What the panels say: the verdict's kind, its words ("" where the kind says all), each one alone."""

    verdict: str
    words: str
    each: tuple[PanelEstimate, ...]


def with_panels(panels: Sequence[Panel], whole: str, judged: Judged) -> Panels:
    """`whole`, the verdict over all panels, held against each of them alone and against all but one.

    A panel is a model on a dataset, at all its context shapes. `REPRODUCED` and `NOT_REPRODUCED` stay only if
    they hold whichever panel is left out; else the verdict names the panels on which it holds by itself, or,
    where it holds on none, those without which it does not.
    """
    groups = grouped(panels)
    if len(groups) < 2:
        return Panels(whole, "", ())
    each = []
    for name, some in groups.items():
        word, measured, n = judged(some)
        each.append(PanelEstimate(name, n, measured, word))
    if whole == INCONCLUSIVE:
        return Panels(whole, "", tuple(each))
    needed = [
        name
        for name, some in groups.items()
        if judged([panel for panel in panels if not any(panel is one for one in some)])[0] != whole
    ]
    if not needed:
        return Panels(whole, "", tuple(each))
    alone = [one.name for one in each if one.verdict == whole]
    part = {REPRODUCED: PARTLY, NOT_REPRODUCED: PARTLY_NOT}[whole]
    words = f"{whole} on {', '.join(alone)} only" if alone else f"{whole} only with {', '.join(needed)}"
    return Panels(part, words, tuple(each))


def grouped(panels: Sequence[Panel]) -> dict[str, list[Panel]]:
    """Panels by model and dataset, named by the dataset alone where there is one model."""
    several = len({panel.model for panel in panels}) > 1
    found: dict[str, list[Panel]] = {}
    for panel in panels:
        name = f"{panel.model.rsplit('/', 1)[-1]} {panel.dataset}" if several else panel.dataset
        found.setdefault(name, []).append(panel)
    return found
