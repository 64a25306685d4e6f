"""`qcbench datasets`: list the datasets, show a card."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import plugins
from bench.errors import UserError


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    datasets = commands.add_parser("datasets", help="list the datasets, or show the card of one")
    datasets.add_argument("name", nargs="?")
    datasets.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from rich.markdown import Markdown

    if args.name is not None:
        family = args.name.split("/")[0]
        card = plugins.folder("datasets") / "cards" / f"{family}.md"
        if not card.exists():
            known = ", ".join(plugins.available("datasets"))
            raise UserError(f"unknown dataset {args.name!r}; known: {known}")
        console.print(Markdown(card.read_text(encoding="utf-8")))
        return 0
    table = Table("dataset", "metric", "what it is", box=None)
    for name in plugins.available("datasets"):
        cls = plugins.load("datasets", name).DATASET
        for task in cls.tasks:
            about = f"{cls.about} [{cls.note}]" if cls.note else cls.about
            table.add_row(
                f"{name}/{task}" if task else name, cls(task=task).scored_by, about.replace("[", "\\[")
            )
    console.print(table)
    return 0
