"""`qcbench run`: run an experiment, or go on with it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder, last_line, names, ratios


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    run = commands.add_parser("run", help="run an experiment, or go on with it")
    run.add_argument("experiment", help="name of an experiment, such as fig10, or a file: ./own.yaml")
    run.add_argument("--profile", help="tiny, smoke, cpu, lite or paper (default: smoke)")
    run.add_argument("--out", type=Path, help="run folder (default: results/EXPERIMENT-PROFILE)")
    run.add_argument(
        "--report", type=Path, help="folder for figures (default: reports/NAME OF THE RUN FOLDER)"
    )
    run.add_argument(
        "--models", type=names, help="built-in names, hub ids, checkpoint folders or .gguf files"
    )
    run.add_argument("--datasets", type=names, help="tasks, such as multihop,ruler/vt[demo_tokens=0]")
    run.add_argument("--methods", type=names, help="names, names with parameters, or files: epic,./mine.py")
    run.add_argument("--rho", type=ratios, help="recomputation ratios, such as 0.1,0.3")
    run.add_argument("--requests", type=int, help="requests a cell")
    run.add_argument("--chunks", type=int, help="chunks a request")
    run.add_argument("--chunk-tokens", type=int, help="tokens a chunk")
    run.add_argument("--seed", type=int)
    run.add_argument("--dtype", choices=["auto", "float32", "bfloat16"])
    run.add_argument("--store", choices=["memory", "disk"], help="tier of the chunk store")
    run.add_argument(
        "--bandwidth",
        type=names,
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
    run.add_argument("--passages", type=Path, help="HotpotQA, 2WikiMultihopQA or MuSiQue: a file or a folder")
    run.add_argument(
        "--ruler-files", type=Path, help="JSONL as RULER's prepare.py writes it: a file or a folder"
    )
    run.add_argument(
        "--dry-run", action="store_true", help="print cells, requests, disk and time, run nothing"
    )
    run.add_argument(
        "--print", action="store_true", dest="write",
        help="print the settings as YAML, to start an own.yaml from; run nothing",
    )  # fmt: skip
    run.add_argument("--fresh", action="store_true", help="start over, dropping the rows of the run folder")
    run.add_argument(
        "--trust-model", action="store_true",
        help="go on where a model fails the checks before a run (finite logits, equal to transformers); "
        "figures say so",
    )  # fmt: skip
    run.add_argument(
        "--wandb", choices=["offline", "online", "off"],
        help="mirror the rows to W&B after the run (default: offline, files in the run folder)",
    )  # fmt: skip
    run.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    from bench.assets import cache
    from bench.experiments import profile_of, resolve, stem_of, written
    from bench.reports.write import write_report
    from bench.runners.run import run
    from bench.tracking.after_run import mirror, mode_before_run

    for name in ("longbench", "passages", "ruler_files", "spans"):
        if getattr(args, name) is not None:
            os.environ[f"QCBENCH_{name.upper()}"] = str(getattr(args, name))
    profile = profile_of(args.experiment, args.profile)
    sweep = resolve(
        args.experiment, profile, models=args.models, datasets=args.datasets, methods=args.methods,
        rho=args.rho, requests=args.requests, chunks=args.chunks, chunk_tokens=args.chunk_tokens,
        seed=args.seed, dtype=args.dtype, store=args.store, bandwidth=args.bandwidth,
        throttle=args.throttle, read_latency_ms=args.read_latency_ms, store_limit_gb=args.store_limit_gb,
        overlap=args.overlap, chunk_prefix=args.chunk_prefix, calibration_set=args.calibration_set,
    )  # fmt: skip
    if args.write:
        print(f"# qcbench run ./FILE.yaml runs this.\n{written(sweep)}", end="")
        return 0
    out = args.out or Path("results") / stem_of(args.experiment, profile)
    report = args.report or Path("reports") / out.name
    cache.check()
    if not args.dry_run:
        check_folder(out, "--out")
        check_folder(report, "--report")
    wandb = "off" if args.dry_run else mode_before_run(args.wandb)
    failed = run(sweep, out, console, fresh=args.fresh, dry=args.dry_run, trust_model=args.trust_model)
    if args.dry_run:
        return 0
    page = write_report([out], report, console)
    if failed:
        console.print(
            f"{failed} rows failed; their errors are in {out}/rows.jsonl, tracebacks in {out}/errors.log"
        )
    mirror(out, wandb, console)
    last_line(page, console)
    return 1 if failed else 0
