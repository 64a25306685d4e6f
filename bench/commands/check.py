"""`qcbench check`: is fusion fast here, is this GPU right."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from bench.commands.arguments import names


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    check = commands.add_parser("check", help="measure this machine: is fusion fast here, is this GPU right")
    check.add_argument("what", choices=["speed", "gpu"])
    check.add_argument("--models", type=names, help="default: both default models; gpu: the larger")
    check.add_argument("--rounds", type=int, default=5)
    check.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.assets.models import DEFAULTS
    from bench.checks.show import check_gpu, check_speed

    if args.what == "gpu":
        return 0 if check_gpu((args.models or DEFAULTS)[-1], console) else 1
    check_speed(args.models or DEFAULTS, args.rounds, console)
    return 0
