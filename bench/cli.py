"""qcbench: the command line."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from bench import __version__, process
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


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let `main` see to it, as for output that is not rich's."""
        raise BrokenPipeError


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qcbench", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for module in COMMANDS:
        module.add(commands)
    completion.add(commands, parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; without `argv`, as the process that it is (`bench.process`).

    Exit status 2 and one line for what the user can mend, 130 after Ctrl-C, 143 after SIGTERM and 129 after
    SIGHUP; 141, and not a word, where nobody reads the output any more.
    """
    if argv is None:
        process.in_utf8()
        process.stop_at_signals()
        process.guard_output()
    try:
        return _run(argv)
    except UserError as error:
        return _ended(f"qcbench: {' '.join(str(error).split())}", 2)
    except process.Stopped as stop:
        return _ended(f"qcbench: stopped by {stop}; the same command goes on from here", stop.code)
    except KeyboardInterrupt:
        return _ended("qcbench: stopped; the same command goes on from here", 130)
    except BrokenPipeError:
        process.drop_output()
        return 141


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = _parser().parse_args(argv)
        code: int = args.do(args, _Console(soft_wrap=False))
    except SystemExit:  # --help and --version
        _flush()
        raise
    _flush()
    return code


def _flush() -> None:
    """Write what is buffered while an error can still be told."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _ended(line: str, code: int) -> int:
    with contextlib.suppress(OSError):  # there is nobody left to tell
        print(line, file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
