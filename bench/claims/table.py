"""The verdicts on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    VERDICTS,
    Verdict,
)

STYLES = {
    REPRODUCED: "bold green",
    NOT_REPRODUCED: "bold red",
    INCONCLUSIVE: "yellow",
    NOT_TESTABLE: "cyan",
    NO_DATA: "dim",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def print_verdicts(verdicts: Sequence[Verdict], alarms: Sequence[str], console: Console) -> None:
    """Print how many of each verdict there are, all of them, on what they were judged, and alarms.

    Names out of rows show as text: no markup, no control characters.
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
    axes = list(dict.fromkeys(verdict.axes for verdict in verdicts if verdict.axes))
    marks = {text: f"({_letter(at)})" for at, text in enumerate(axes)}
    console.print(_table(verdicts, marks))
    for text, mark in marks.items():
        console.print(Text(f"{mark} judged on {shown(text)}"))
    console.print(
        Text(
            "[ ]: 95 % interval over requests, models and datasets weighing the same; inconclusive where it "
            "holds both sides of the threshold. A verdict is about these rows, not about the paper's machine "
            "and models."
        ),
        style="dim",
    )
    for alarm in alarms:
        console.print(Text(f"ALARM: {shown(alarm)}", style="bold red"))
    console.print(Text(f"{len(verdicts)} claims: {words}", style="bold"))


def as_json(verdicts: Sequence[Verdict], alarms: Sequence[str]) -> str:
    """The verdicts as one JSON object, ASCII only; numbers that are not finite are null."""
    return json.dumps(
        {"verdicts": [verdict.record() for verdict in verdicts], "alarms": list(alarms)}, indent=1
    )


def shown(text: str) -> str:
    """Text in which what does not print, such as ESC or a bidirectional mark, is written as its code."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text
    )


def _table(verdicts: Sequence[Verdict], marks: dict[str, str]) -> Table:
    table = Table(show_lines=True)
    table.add_column("claim, section", ratio=6, overflow="fold")
    table.add_column("expected, measured", ratio=5, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for verdict in verdicts:
        claim = Text.assemble((verdict.id, "bold"), f"\n{verdict.claim} ", (f"({verdict.section})", "dim"))
        numbers = Text(f"expected {verdict.expected}")
        if verdict.axes:
            numbers.append(f"\n{shown(verdict.measured)}\nn = {verdict.n} {marks[verdict.axes]}")
        if verdict.remark:
            numbers.append(f"\n{shown(verdict.remark)}", style="dim")
        table.add_row(claim, numbers, Text(verdict.verdict, STYLES[verdict.verdict]))
    return table


def _letter(at: int) -> str:
    more, last = divmod(at, len(LETTERS))
    return (LETTERS[more - 1] if more else "") + LETTERS[last]
