"""qcbench doctor: is this machine ready, and is fusion exact on a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

MARKS = {"good": "[green]ok  [/]", "note": "[yellow]note[/]", "bad": "[red]NO  [/]"}
REFERENCE_SHARE = 4
"""`transformers` is asked too where the weights are less than one part in so many of the free memory."""


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    doctor = commands.add_parser(
        "doctor", help="what this machine has and lacks; with --model, whether fusion is exact on it"
    )
    doctor.add_argument("--model", help="a built-in name, hub id, checkpoint folder or .gguf file")
    doctor.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    doctor.add_argument("--out", type=Path, default=Path("results"), help="where runs will be written")
    doctor.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    return _machine(args.out, console) if args.model is None else _model(args.model, args.dtype, console)


def _machine(out: Path, console: Console) -> int:
    from bench.checks.machine import facts

    bad = 0
    for fact in facts(out):
        _line(console, fact.state, fact.name, fact.seen, fact.fix if fact.state != "good" else "")
        bad += fact.state == "bad"
    ready = "ready: make reproduce-fig10" if not bad else f"{bad} to mend first"
    console.print(ready, highlight=False)
    return 1 if bad else 0


def _model(name: str, dtype: str, console: Console) -> int:
    import psutil

    from bench.assets.models import resolve
    from bench.checks.model import findings, traits
    from bench.engine.engine import Engine

    model = resolve(name, console.print)
    for trait, seen in traits(model.path):
        _line(console, "good", trait, seen, "")
    weights = sum(file.stat().st_size for file in model.path.glob("*.safetensors"))
    small = weights * REFERENCE_SHARE < psutil.virtual_memory().available
    engine = Engine(model.path, dtype, 2048)
    wrong = 0
    for finding in findings(engine, model.path, reference=small):
        state = "good" if finding.right else "bad"
        _line(console, state, finding.name, finding.seen, "" if finding.right else finding.look)
        wrong += not finding.right
    if not small:
        _line(
            console, "note", "full prefill equals transformers", "not compared: too large to load twice", ""
        )
    end = (
        f"fusion is exact on {name} in {dtype}"
        if not wrong
        else f"{wrong} checks failed: believe no score of {name}"
    )
    console.print(end, highlight=False, markup=False)
    return 1 if wrong else 0


def _line(console: Console, state: str, name: str, seen: str, fix: str) -> None:
    from rich.markup import escape

    text = f"{MARKS[state]} [bold]{escape(name)}[/]: {escape(seen)}"
    if fix:
        text += f"\n     {escape(fix)}"
    console.print(text, highlight=False, soft_wrap=True)
