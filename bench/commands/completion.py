"""qcbench completion: a script for the shell that completes commands, options and their values."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console


def add(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Add the command to the parser's; `parser` is the whole one, which the script describes."""
    completion = commands.add_parser(
        "completion", help="print a completion script: source <(qcbench completion bash)"
    )
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    completion.set_defaults(do=_do, parser=parser)


def _do(args: argparse.Namespace, console: Console) -> int:
    import shtab

    print(shtab.complete(args.parser, args.shell))
    return 0
