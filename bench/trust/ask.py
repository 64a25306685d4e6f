"""The gate of a run: a few checks of a checkpoint, asked once, and their answer kept."""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch

from bench.assets import cache, checkpoint
from bench.engine.engine import Engine
from bench.errors import UserError
from bench.trust.model import Finding, few

_BENCH = Path(__file__).resolve().parents[1]
_SOURCES = ("engine", "kernels", "trust")
_PACKAGES = ("sglang", "torch", "transformers", "triton")
_SPARE = 1.25
"""Free memory that a second copy of the weights has to leave, as a factor of its size."""


@dataclass(frozen=True)
class Trust:
    """What the checks found on a checkpoint in a dtype."""

    findings: tuple[Finding, ...]
    compared: bool
    """Whether `transformers` was asked; not where its copy of the weights has no room."""
    kept: bool
    """Whether the answer is that of an earlier run."""

    @property
    def failed(self) -> list[str]:
        """Names of the checks that do not hold."""
        return [finding.name for finding in self.findings if not finding.right]

    def recorded(self) -> dict[str, object]:
        """What run.json keeps of it."""
        seen = [{"name": f.name, "right": f.right, "seen": f.seen} for f in self.findings]
        return {"failed": self.failed, "compared": self.compared, "kept": self.kept, "checks": seen}


def ask(engine: Engine, path: Path, revision: str) -> Trust:
    """Check a loaded model, or take the answer that is kept for the same weights, configuration, dtype,
    packages, and sources of engine, kernels and checks. Leaves the engine's pool empty."""
    place = cache.root() / "trust" / f"{_key(engine, path, revision)}.json"
    if place.exists():
        known = json.loads(place.read_text(encoding="utf-8"))
        return Trust(tuple(Finding(**finding) for finding in known), True, True)
    compared = _weights(path) * _SPARE < _room(engine.device)
    found = tuple(few(engine, path, reference=compared))
    engine.runtime.clear()
    gc.collect()
    if engine.device == "cuda":
        torch.cuda.empty_cache()
    if compared:  # else there may be room another time
        cache.write_atomically(place, json.dumps([asdict(finding) for finding in found]))
    return Trust(found, compared, False)


def require(trust: Trust, name: str, trusted: bool, remark: Callable[[str], None]) -> None:
    """Raise `UserError` where a check failed; with `trusted` go on, and `remark` on it."""
    if not trust.compared:
        remark("not compared with transformers: too large to load twice here")
    wrong = [finding for finding in trust.findings if not finding.right]
    if not wrong:
        return
    said = "; ".join(f"{finding.name}: {finding.seen}" for finding in wrong)
    if not trusted:
        raise UserError(
            f"{name} does not compute here what it should ({said}): no score of it means anything; "
            f"see qcbench doctor --model, or go on with --trust-model"
        )
    remark(f"trusted on request (--trust-model), although it does not compute what it should ({said})")


def sources() -> Iterator[Path]:
    """The files whose change asks for the checks anew."""
    for folder in _SOURCES:
        yield from sorted((_BENCH / folder).rglob("*.py"))


def _key(engine: Engine, path: Path, revision: str) -> str:
    digest = hashlib.sha256(f"{revision} {engine.dtype} {engine.device}".encode())
    for file in (path / "config.json", *sources()):
        digest.update(file.name.encode() + file.read_bytes())
    installed = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    digest.update(json.dumps([installed.get(name) for name in _PACKAGES]).encode())
    return digest.hexdigest()[:32]


def _weights(path: Path) -> int:
    """Bytes of the weights in fp32, which is how `transformers` is asked; never too few."""
    files = sum(file.stat().st_size for file in checkpoint.check(path))
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return files if config.get("dtype", config.get("torch_dtype")) == "float32" else 2 * files


def _room(device: str) -> int:
    """Free bytes where `transformers` would load a model: in host memory, and then on the GPU."""
    host = int(psutil.virtual_memory().available)
    return min(host, torch.cuda.mem_get_info()[0]) if device == "cuda" else host
