"""qcbench: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from bench import __version__, plugins
from bench.commands import claims, compare, completion, doctor, publish
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
    run.add_argument(
        "--bandwidth",
        type=_names,
        help="throttles of the store: none, 250MB/s, or 1.5x (1x: loading takes as long as full prefill)",
    )
    run.add_argument(
        "--throttle",
        choices=["bucket", "kernel"],
        help="who slows reads: a token bucket, or the kernel (cgroup v2)",
    )
    run.add_argument("--read-latency-ms", type=float, help="added to every read under a token bucket")
    run.add_argument("--store-limit-gb", type=float, help="size limit of the disk tier")
    run.add_argument(
        "--no-overlap", dest="overlap", action="store_const", const=False,
        help="load each layer where it is needed and not before: the comparison for the pipeline",
    )  # fmt: skip
    run.add_argument(
        "--chunk-prefix", choices=["none", "bos", "system"], help="what chunks are cached behind"
    )
    run.add_argument("--calibration-set", help="where layers are profiled, such as spans/squad")
    run.add_argument("--spans", type=Path, help="SQuAD, Natural Questions or NewsQA: a file or a folder")
    run.add_argument("--longbench", type=Path, help="LongBench's data.zip or a folder of JSONL files")
    run.add_argument(
        "--dry-run", action="store_true", help="print cells, requests, disk and time, run nothing"
    )
    run.add_argument("--fresh", action="store_true", help="start over, dropping the rows of the run folder")
    run.add_argument(
        "--wandb", choices=["offline", "online", "off"],
        help="mirror the rows to W&B after the run (default: offline, files in the run folder)",
    )  # fmt: skip
    run.set_defaults(do=_run)

    report = commands.add_parser("report", help="figures, tables and one page (index.html) of finished runs")
    report.add_argument("run", type=Path, nargs="+", help="run folders; claims are judged over all of them")
    report.add_argument("--out", type=Path, help="default: reports/NAME OF THE FIRST RUN FOLDER")
    report.set_defaults(do=_report)

    timeline = commands.add_parser("timeline", help="draw what ran when for one request, and write a trace")
    timeline.add_argument("run", type=Path, help="run folder")
    timeline.add_argument("--request", help="id of a recorded request (default: the first)")
    timeline.add_argument("--model", help="default: the first recorded")
    timeline.add_argument("--dataset", help="default: the first recorded")
    timeline.add_argument(
        "--method", type=_names, default=[], help="names, such as epic,qcfuse (default: all)"
    )
    timeline.add_argument("--bandwidth", help="as in the rows, such as 1.5x (default: the slowest)")
    timeline.add_argument("--rho", type=float, help="default: the lowest")
    timeline.add_argument("--out", type=Path, help="default: reports/NAME OF THE RUN FOLDER")
    timeline.set_defaults(do=_timeline)

    fetch = commands.add_parser("fetch", help="get models and text into the cache")
    fetch.add_argument("models", nargs="*", help="default: both default models")
    fetch.set_defaults(do=_fetch)

    store = commands.add_parser("store", help="chunk stores to and from safetensors files")
    store.add_argument("what", choices=["export", "import"])
    store.add_argument(
        "source", type=Path, help="export: a store folder (RUN/store); import: a folder of files"
    )
    store.add_argument("target", type=Path)
    store.set_defaults(do=_store)

    check = commands.add_parser("check", help="measure this machine: is fusion fast here, is this GPU right")
    check.add_argument("what", choices=["speed", "gpu"])
    check.add_argument("--models", type=_names, help="default: both default models; gpu: the larger")
    check.add_argument("--rounds", type=int, default=5)
    check.set_defaults(do=_check)

    check_method = commands.add_parser("check-method", help="does a method keep the rules; one line a check")
    check_method.add_argument("method", help="NAME, NAME[param=value,...] or FILE.py")
    check_method.add_argument("--model", help="any model's first layers (default: a tiny random model)")
    check_method.add_argument("--layers", type=int, default=4, help="how many of them (default: 4)")
    check_method.set_defaults(do=_check_method)

    methods = commands.add_parser("methods", help="list the methods")
    methods.add_argument(
        "--write", type=Path, metavar="FILE", help="write the page about them (docs/methods.md)"
    )
    methods.add_argument("--model", default="qwen2.5-coder-0.5b", help="of the page's figures")
    methods.set_defaults(do=_methods)
    datasets = commands.add_parser("datasets", help="list the datasets, or show the card of one")
    datasets.add_argument("name", nargs="?")
    datasets.set_defaults(do=_datasets)

    claims.add(commands)
    publish.add(commands)
    doctor.add(commands)
    compare.add(commands)
    completion.add(commands, parser)
    return parser


def _run(args: argparse.Namespace, console: Console) -> int:
    from bench.experiments import resolve
    from bench.reports.write import write_report
    from bench.runners.run import run
    from bench.tracking.after_run import mirror, mode_before_run

    for name in ("longbench", "spans"):
        if getattr(args, name) is not None:
            os.environ[f"QCBENCH_{name.upper()}"] = str(getattr(args, name))
    sweep = resolve(
        args.experiment, args.profile, models=args.models, datasets=args.datasets, methods=args.methods,
        rho=args.rho, requests=args.requests, chunks=args.chunks, chunk_tokens=args.chunk_tokens,
        seed=args.seed, dtype=args.dtype, store=args.store, bandwidth=args.bandwidth,
        throttle=args.throttle, read_latency_ms=args.read_latency_ms, store_limit_gb=args.store_limit_gb,
        overlap=args.overlap, chunk_prefix=args.chunk_prefix, calibration_set=args.calibration_set,
    )  # fmt: skip
    out = args.out or Path("results") / f"{args.experiment}-{args.profile}"
    wandb = "off" if args.dry_run else mode_before_run(args.wandb)
    failed = run(sweep, out, console, fresh=args.fresh, dry=args.dry_run)
    if args.dry_run:
        return 0
    page = write_report([out], args.report or Path("reports") / out.name, console)
    if failed:
        console.print(
            f"{failed} rows failed; their errors are in {out}/rows.jsonl, tracebacks in {out}/errors.log"
        )
    mirror(out, wandb, console)
    _last_line(page, console)
    return 1 if failed else 0


def _report(args: argparse.Namespace, console: Console) -> int:
    from bench.reports.write import write_report

    runs: list[Path] = args.run
    _last_line(write_report(runs, args.out or Path("reports") / runs[0].resolve().name, console), console)
    return 0


def _last_line(page: Path, console: Console) -> None:
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)


def _timeline(args: argparse.Namespace, console: Console) -> int:
    from bench.results.recorded import Wanted
    from bench.results.report_timeline import write_timeline

    wanted = Wanted(args.request, args.model, args.dataset, args.method, args.bandwidth, args.rho)
    write_timeline(args.run, wanted, args.out or Path("reports") / args.run.name, console)
    return 0


def _fetch(args: argparse.Namespace, console: Console) -> int:
    from bench.assets.haystack import essays
    from bench.assets.models import DEFAULTS, resolve

    for name in args.models or DEFAULTS:
        console.print(f"{name}: {resolve(name, console.print).path}", highlight=False, soft_wrap=True)
    text, digest = essays()
    console.print(f"essays: {len(text.split())} words, sha256 {digest[:16]}", highlight=False)
    return 0


def _store(args: argparse.Namespace, console: Console) -> int:
    from bench.store.exchange import export_store, import_store

    move = export_store if args.what == "export" else import_store
    console.print(
        f"{move(args.source, args.target)} entries, {args.source} to {args.target}", highlight=False
    )
    return 0


def _check(args: argparse.Namespace, console: Console) -> int:
    from bench.assets.models import DEFAULTS
    from bench.checks.show import check_gpu, check_speed

    if args.what == "gpu":
        return 0 if check_gpu((args.models or DEFAULTS)[-1], console) else 1
    check_speed(args.models or DEFAULTS, args.rounds, console)
    return 0


def _check_method(args: argparse.Namespace, console: Console) -> int:
    from bench.conformance.show import check_method

    return 0 if check_method(args.method, args.model, args.layers, console) else 1


def _methods(args: argparse.Namespace, console: Console) -> int:
    from bench.methods import method_of

    if args.write is not None:
        from bench.checks.show import stand_of
        from bench.reference.methods import page

        args.write.write_text(page(stand_of(args.model, 2000, console), args.model))
        return 0
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
