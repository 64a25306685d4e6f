"""`qcbench fetch`: models and text into the cache."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    fetch = commands.add_parser("fetch", help="get models and text into the cache")
    fetch.add_argument("models", nargs="*", help="default: both default models")
    fetch.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.assets.haystack import essays
    from bench.assets.models import DEFAULTS, resolve

    for name in args.models or DEFAULTS:
        console.print(f"{name}: {resolve(name, console.print).path}", highlight=False, soft_wrap=True)
    text, digest = essays()
    console.print(f"essays: {len(text.split())} words, sha256 {digest[:16]}", highlight=False)
    return 0
