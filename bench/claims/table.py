"""The verdicts on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from math import isnan

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.claims.family import family_line
from bench.claims.power import about
from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    PARTLY,
    PARTLY_NOT,
    REPRODUCED,
    TOO_FEW,
    VERDICTS,
    Verdict,
)

STYLES = {
    REPRODUCED: "bold green",
    PARTLY: "green",
    NOT_REPRODUCED: "bold red",
    PARTLY_NOT: "red",
    TOO_FEW: "cyan",
    INCONCLUSIVE: "yellow",
    NOT_TESTABLE: "cyan",
    NO_DATA: "dim",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def print_verdicts(verdicts: Sequence[Verdict], alarms: Sequence[str], console: Console) -> None:
    """Print how many of each verdict there are, all of them, on what they were judged, and alarms.

    Names out of rows show as text: no markup, no control characters.
    """
    words = tally(verdicts)
    axes = list(dict.fromkeys(verdict.axes for verdict in verdicts if verdict.axes))
    marks = {text: f"({_letter(at)})" for at, text in enumerate(axes)}
    console.print(_table(verdicts, marks))
    for text, mark in marks.items():
        console.print(Text(f"{mark} judged on {shown(text)}"))
    console.print(
        Text(
            "[ ]: 95 % interval over requests, models and datasets weighing the same; where it holds both "
            "sides of the threshold: inconclusive if the rows could have shown the claim, too few requests "
            "if not. Reproduced holds whichever model and dataset is left out. A verdict is about these "
            "rows, not about the paper's machine and models."
        ),
        style="dim",
    )
    together = family_line(verdicts)
    if together:
        console.print(Text(together))
    for alarm in alarms:
        console.print(Text(f"ALARM: {shown(alarm)}", style="bold red"))
    console.print(Text(f"{len(verdicts)} claims: {words}", style="bold"))


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many there are of each kind of verdict, every kind apart."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])


def print_power(name: str, verdicts: Sequence[Verdict], console: Console) -> None:
    """Print, of every claim judged on one run, the requests it needs beside those there are."""
    table = Table(title=Text(f"{shown(name)}: requests needed to show a claim, 80 % power"))
    for title in ("claim", "has", "needs", "enough"):
        table.add_column(title, justify="left" if title == "claim" else "right")
    for verdict in verdicts:
        if verdict.n:
            known = not isnan(verdict.needed)
            enough = ("yes" if verdict.needed <= verdict.n else "no") if known else "-"
            needs = about(verdict.needed).removeprefix("about ") if known else "not known"
            table.add_row(verdict.id, f"{verdict.n:,}", needs, enough)
    console.print(table)
    unjudged = sum(not verdict.n for verdict in verdicts)
    console.print(Text(f"{unjudged} claims have no number on these rows", style="dim"))


def as_json(verdicts: Sequence[Verdict], alarms: Sequence[str]) -> str:
    """The verdicts as one JSON object, ASCII only; numbers that are not finite are null."""
    found = {
        "verdicts": [verdict.record() for verdict in verdicts],
        "family": family_line(verdicts),
        "alarms": list(alarms),
    }
    return json.dumps(found, indent=1)


def shown(text: str) -> str:
    """Text in which what does not print, such as ESC or a bidirectional mark, is written as its code."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def _table(verdicts: Sequence[Verdict], marks: dict[str, str]) -> Table:
    table = Table(show_lines=True)
    table.add_column("claim, section", ratio=6, overflow="fold")
    table.add_column("expected, measured", ratio=5, overflow="fold")
    table.add_column("verdict", width=17, overflow="fold")
    for verdict in verdicts:
        claim = Text.assemble((verdict.id, "bold"), f"\n{verdict.claim} ", (f"({verdict.section})", "dim"))
        numbers = Text(f"expected {verdict.expected}")
        if verdict.axes:
            numbers.append(f"\n{shown(verdict.measured)}\nn = {verdict.n} {marks[verdict.axes]}")
            for panel in verdict.panels:
                numbers.append(
                    f"\n  {shown(panel.name)}: {shown(panel.measured)}, n = {panel.n}", style="dim"
                )
        elif verdict.measured != "-":
            numbers.append(f"\n{shown(verdict.measured)}")
        if verdict.weak:
            numbers.append(f"\nweak: {verdict.weak}", style="yellow")
        if verdict.remark:
            numbers.append(f"\n{shown(verdict.remark)}", style="dim")
        table.add_row(claim, numbers, Text(shown(verdict.said), STYLES[verdict.verdict]))
    return table


def _letter(at: int) -> str:
    more, last = divmod(at, len(LETTERS))
    return (LETTERS[more - 1] if more else "") + LETTERS[last]
