"""qcbench: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from bench import __version__, plugins
from bench.errors import UserError

DESCRIPTION = "Compare RAG KV-cache fusion methods: quality against time to first token."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def _ratios(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--rho {text!r}: write numbers from 0 to 1, separated by commas") from None


def _names(text: str) -> list[str]:
    """Split at commas outside brackets: "epic,qcfuse[layers=1,anchor_ratio=0.2]"."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="qcbench", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)

    run = commands.add_parser("run", help="run an experiment, or go on with it")
    run.add_argument("experiment", help="name of an experiment, such as fig10")
    run.add_argument("--profile", default="smoke", help="tiny, smoke, cpu, lite or paper (default: smoke)")
    run.add_argument("--out", type=Path, help="run folder (default: results/EXPERIMENT-PROFILE)")
    run.add_argument(
        "--report", type=Path, help="folder for figures (default: reports/NAME OF THE RUN FOLDER)"
    )
    run.add_argument(
        "--models", type=_names, help="built-in names, hub ids, checkpoint folders or .gguf files"
    )
    run.add_argument("--datasets", type=_names, help="tasks, such as ruler/mq,multihop")
    run.add_argument("--methods", type=_names, help="names, names with parameters, or files: epic,./mine.py")
    run.add_argument("--rho", type=_ratios, help="recomputation ratios, such as 0.1,0.3")
    run.add_argument("--requests", type=int, help="requests a cell")
    run.add_argument("--chunks", type=int, help="chunks a request")
    run.add_argument("--chunk-tokens", type=int, help="tokens a chunk")
    run.add_argument("--seed", type=int)
    run.add_argument("--dtype", choices=["auto", "float32", "bfloat16"])
    run.add_argument("--store", choices=["memory", "disk"], help="tier of the chunk store")
    run.add_argument("--longbench", type=Path, help="LongBench's data.zip or a folder of JSONL files")
    run.add_argument(
        "--dry-run", action="store_true", help="print cells, requests, disk and time, run nothing"
    )
    run.add_argument("--fresh", action="store_true", help="start over, dropping the rows of the run folder")
    run.set_defaults(do=_run)

    report = commands.add_parser("report", help="draw the figures of a run again")
    report.add_argument("run", type=Path)
    report.add_argument("--out", type=Path)
    report.set_defaults(do=_report)

    fetch = commands.add_parser("fetch", help="get models and text into the cache")
    fetch.add_argument("models", nargs="*", default=["smollm2-135m", "qwen2.5-coder-0.5b"])
    fetch.set_defaults(do=_fetch)

    methods = commands.add_parser("methods", help="list the methods")
    methods.set_defaults(do=_methods)
    datasets = commands.add_parser("datasets", help="list the datasets, or show the card of one")
    datasets.add_argument("name", nargs="?")
    datasets.set_defaults(do=_datasets)
    return parser


def _run(args: argparse.Namespace, console: Console) -> int:
    from bench.experiments import resolve
    from bench.results.report import write_reports
    from bench.runners.run import run

    if args.longbench is not None:
        import os

        os.environ["QCBENCH_LONGBENCH"] = str(args.longbench)
    sweep = resolve(
        args.experiment, args.profile, models=args.models, datasets=args.datasets, methods=args.methods,
        rho=args.rho, requests=args.requests, chunks=args.chunks, chunk_tokens=args.chunk_tokens,
        seed=args.seed, dtype=args.dtype, store=args.store,
    )  # fmt: skip
    out = args.out or Path("results") / f"{args.experiment}-{args.profile}"
    failed = run(sweep, out, console, fresh=args.fresh, dry=args.dry_run)
    if args.dry_run:
        return 0
    write_reports(out, args.report or Path("reports") / out.name, console)
    if failed:
        console.print(
            f"{failed} rows failed; their errors are in {out}/rows.jsonl, tracebacks in {out}/errors.log"
        )
    return 1 if failed else 0


def _report(args: argparse.Namespace, console: Console) -> int:
    from bench.results.report import write_reports

    write_reports(args.run, args.out or Path("reports") / args.run.name, console)
    return 0


def _fetch(args: argparse.Namespace, console: Console) -> int:
    from bench.assets.haystack import essays
    from bench.assets.models import resolve

    for name in args.models:
        console.print(f"{name}: {resolve(name, console.print).path}", highlight=False, soft_wrap=True)
    text, digest = essays()
    console.print(f"essays: {len(text.split())} words, sha256 {digest[:16]}", highlight=False)
    return 0


def _methods(_: argparse.Namespace, console: Console) -> int:
    from bench.methods import method_of

    table = Table("method", "what it recomputes", "parameters", box=None)
    for name in plugins.available("methods"):
        method = method_of(name)
        params = ", ".join(f"{k}={v}" for k, v in vars(method.method).items())
        table.add_row(name, method.about, params)
    console.print(table)
    return 0


def _datasets(args: argparse.Namespace, console: Console) -> int:
    from rich.markdown import Markdown

    if args.name is not None:
        family = args.name.split("/")[0]
        card = plugins.folder("datasets") / "cards" / f"{family}.md"
        if not card.exists():
            known = ", ".join(plugins.available("datasets"))
            raise UserError(f"unknown dataset {args.name!r}; known: {known}")
        console.print(Markdown(card.read_text()))
        return 0
    table = Table("dataset", "metric", "what it is", box=None)
    for name in plugins.available("datasets"):
        cls = plugins.load("datasets", name).DATASET
        for task in cls.tasks:
            about = f"{cls.about} [{cls.note}]" if cls.note else cls.about
            table.add_row(f"{name}/{task}" if task else name, cls.metric, about.replace("[", "\\["))
    console.print(table)
    return 0


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
