"""qcbench: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from bench import __version__
from bench.commands import (
    check,
    check_method,
    claims,
    compare,
    completion,
    datasets,
    doctor,
    fetch,
    methods,
    publish,
    report,
    run,
    store,
    timeline,
)
from bench.errors import UserError

DESCRIPTION = "Compare RAG KV-cache fusion methods: quality against time to first token."
COMMANDS = (
    run, report, claims, compare, publish, timeline, methods, check_method, datasets, fetch, doctor, check,
    store,
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qcbench", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for module in COMMANDS:
        module.add(commands)
    completion.add(commands, parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Exit status 2 and one line for what the user can mend, 130 after Ctrl-C."""
    console = Console(soft_wrap=False)
    try:
        args = _parser().parse_args(argv)
        code: int = args.do(args, console)
    except UserError as error:
        print(f"qcbench: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("qcbench: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
