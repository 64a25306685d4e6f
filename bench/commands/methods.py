"""`qcbench methods`: list the methods, write the page about them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import plugins
from bench.commands.arguments import check_folder
from bench.errors import UserError


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    methods = commands.add_parser("methods", help="list the methods")
    methods.add_argument(
        "--write", type=Path, metavar="FILE", help="write the page about them (docs/methods.md)"
    )
    methods.add_argument("--model", default="qwen2.5-coder-0.5b", help="of the page's figures")
    methods.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.methods import method_of

    if args.write is not None:
        from bench.checks.show import stand_of
        from bench.reference.methods import page

        check_folder(args.write.parent, "--write")
        text = page(stand_of(args.model, 2000, console), args.model)
        try:
            args.write.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{args.write}: {error.strerror}; give another --write") from error
        return 0
    table = Table("method", "what it recomputes", "parameters", box=None)
    for name in plugins.available("methods"):
        method = method_of(name)
        params = ", ".join(f"{k}={v}" for k, v in vars(method.method).items())
        table.add_row(name, method.about, params)
    console.print(table)
    return 0
