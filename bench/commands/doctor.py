"""qcbench doctor: is this machine ready, and is fusion exact on a model."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from bench.checks.machine import Fact

MARKS = {"good": "[green]ok  [/]", "note": "[yellow]note[/]", "bad": "[red]NO  [/]"}
REFERENCE_SHARE = 4
"""`transformers` is asked too where the weights are less than one part in so many of the free memory."""


def add(commands: Any) -> None:
    """Add the command to the parser's."""
    doctor = commands.add_parser(
        "doctor", help="what this machine has and lacks; with --model, whether fusion is exact on it"
    )
    doctor.add_argument("--model", help="a built-in name, hub id, checkpoint folder or .gguf file")
    doctor.add_argument(
        "--dtype", choices=["float32", "bfloat16"], help="default: float32 on a CPU, bfloat16 on a GPU"
    )
    doctor.add_argument("--out", type=Path, default=Path("results"), help="where runs will be written")
    doctor.set_defaults(do=_do)


def _do(args: argparse.Namespace, console: Console) -> int:
    return _machine(args.out, console) if args.model is None else _model(args.model, args.dtype, console)


def _machine(out: Path, console: Console) -> int:
    from itertools import chain

    from bench.checks.machine import facts

    bad = 0
    for fact in chain(facts(out), _tracking()):
        _line(console, fact.state, fact.name, fact.seen, fact.fix if fact.state != "good" else "")
        bad += fact.state == "bad"
    ready = "ready: make reproduce-fig10" if not bad else f"{bad} to mend first"
    console.print(ready, highlight=False)
    return 1 if bad else 0


def _tracking() -> Iterator[Fact]:
    """Whether W&B's client has an API key; here, for `bench.checks` may not import `bench.tracking`."""
    from bench.checks.machine import Fact
    from bench.errors import UserError
    from bench.tracking.session import LOGIN, RESUME, client, require_key

    mode = os.environ.get("WANDB_MODE", "").lower()
    if mode in ("offline", "disabled"):  # the client finds no key then, whether there is one or not
        yield Fact("W&B", "note", f"WANDB_MODE={mode}", "unset WANDB_MODE before qcbench publish")
        return
    try:
        with client():
            require_key()
    except UserError as error:
        said = str(error).removeprefix("W&B: ").removesuffix(f". {RESUME}")
        seen = "no API key: runs are mirrored offline" if str(error) == LOGIN else said
        yield Fact("W&B", "note", seen, "wandb login, before qcbench publish")
        return
    yield Fact("W&B", "good", "an API key is here")


def _room() -> int:
    """Free bytes where `transformers` would load a model: in host memory, and then on the GPU."""
    import psutil
    import torch

    host = int(psutil.virtual_memory().available)
    return min(host, torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else host


def _model(name: str, dtype: str | None, console: Console) -> int:
    import torch

    from bench.assets import checkpoint
    from bench.assets.models import resolve
    from bench.engine.engine import Engine
    from bench.trust.model import findings, traits

    model = resolve(name, console.print)
    for trait, seen in traits(model.path):
        _line(console, "good", trait, seen, "")
    if dtype is None:  # SGLang's attention on a GPU may know no fp32
        dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    weights = sum(file.stat().st_size for file in checkpoint.check(model.path))
    small = weights * REFERENCE_SHARE < _room()
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

    from bench.reports.text import visible

    name, seen, fix = (visible(part) for part in (name, seen, fix))
    text = f"{MARKS[state]} [bold]{escape(name)}[/]: {escape(seen)}"
    if fix:
        text += f"\n     {escape(fix)}"
    console.print(text, highlight=False, soft_wrap=True)
