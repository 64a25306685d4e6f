"""`qcbench publish`: a finished run to W&B, with a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.commands.arguments import check_folder
from bench.errors import UserError


def add(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    publish = commands.add_parser("publish", help="upload a finished run to W&B from its rows, with a report")
    publish.add_argument("run", type=Path, help="run folder")
    publish.add_argument("--project", help="W&B project (default: WANDB_PROJECT, else qcfuse-bench)")
    publish.add_argument("--entity", help="user or team (default: WANDB_ENTITY, else the account's own)")
    publish.add_argument(
        "--timeout", type=float, default=60.0, help="seconds the server has for one answer (default: 60)"
    )
    publish.add_argument(
        "--dry-run", action="store_true", help="write the report's JSON and send nothing; needs no account"
    )
    publish.add_argument("--out", type=Path, help="folder for that JSON (default: the run folder)")
    publish.set_defaults(do=_publish)


def _publish(args: argparse.Namespace, console: Console) -> int:
    from bench.tracking.publish import dry_run, publish
    from bench.tracking.session import entity_name, project_name

    if args.timeout <= 0:
        raise UserError(f"--timeout {args.timeout:g}: give seconds, more than 0")
    project, entity = args.project or project_name(), args.entity or entity_name()
    if args.dry_run:
        check_folder(args.out or args.run, "--out")
        dry_run(args.run, args.out or args.run, console, project=project, entity=entity)
    elif args.out is not None:
        raise UserError("--out goes with --dry-run")
    else:
        publish(args.run, console, project=project, entity=entity, timeout=args.timeout)
    return 0
