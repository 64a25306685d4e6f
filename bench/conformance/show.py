"""`qcbench check-method`: one line a check."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.conformance.stand import Stand
from bench.conformance.suite import check_all
from bench.engine.engine import Engine
from bench.errors import UserError
from bench.methods import method_of

POOL_TOKENS = 1024


def check_method(spec: str, model: str | None, layers: int, console: Console) -> bool:
    """Check a method on a tiny random model, or on the first `layers` of a model. Prints the outcomes.

    Returns whether none failed. Raises `UserError` for a method or a model that is not there.
    """
    if layers < 2:
        raise UserError(f"--layers {layers}: at least 2, as layer 0 is the same for every method")
    method_of(spec)  # before a model is loaded for nothing
    with tempfile.TemporaryDirectory() as folder:
        path, tokenizer, what = _model(model, layers, Path(folder), console)
        stand = Stand(Engine(path, "float32", POOL_TOKENS), tokenizer, spec)
        console.print(f"{spec} on {what}, fp32", highlight=False, markup=False)
        seen = Counter[str]()
        for outcome in check_all(stand):
            console.print(str(outcome), highlight=False, markup=False, soft_wrap=True)
            seen[outcome.status] += 1
    console.print(", ".join(f"{n} {status}" for status, n in seen.items()), highlight=False)
    return not seen["failed"]


def _model(model: str | None, layers: int, folder: Path, console: Console) -> tuple[Path, Any, str]:
    if model is None:
        from bench.conformance.tiny import Bytes, tiny_model

        return tiny_model("llama", folder), Bytes(), "a tiny random model of 4 layers"
    from transformers import AutoTokenizer

    from bench.assets.models import resolve
    from bench.conformance.truncated import first_layers

    path = first_layers(resolve(model, console.print).path, layers, folder)
    return path, AutoTokenizer.from_pretrained(path), f"the first {layers} layers of {model}"
