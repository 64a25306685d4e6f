"""`qcbench store`: chunk stores to and from safetensors files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    store = commands.add_parser("store", help="chunk stores to and from safetensors files")
    store.add_argument("what", choices=["export", "import"])
    store.add_argument(
        "source", type=Path, help="export: a store folder (RUN/store); import: a folder of files"
    )
    store.add_argument("target", type=Path)
    store.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.store.exchange import export_store, import_store

    check_folder(args.target, "TARGET")
    move = export_store if args.what == "export" else import_store
    console.print(
        f"{move(args.source, args.target)} entries, {args.source} to {args.target}", highlight=False
    )
    return 0
