"""`qcbench check-method`: does a method keep the rules."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    check_method = commands.add_parser("check-method", help="does a method keep the rules; one line a check")
    check_method.add_argument("method", help="NAME, NAME[param=value,...] or FILE.py")
    check_method.add_argument("--model", help="any model's first layers (default: a tiny random model)")
    check_method.add_argument("--layers", type=int, default=4, help="how many of them (default: 4)")
    check_method.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.conformance.show import check_method

    return 0 if check_method(args.method, args.model, args.layers, console) else 1
