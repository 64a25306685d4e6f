"""Shared fixtures: tiny models, engines (one a checkpoint for the whole session), the default models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bench  # noqa: F401  (sets OpenMP's waiting before torch is imported)
from tests._tiny import tiny_checkpoint


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of tests leave no W&B files; the tests of tracking ask for them by name."""
    monkeypatch.setenv("WANDB_MODE", "disabled")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny checkpoint, by architecture."""
    made: dict[str, Path] = {}

    def of(architecture: str) -> Path:
        if architecture not in made:
            made[architecture] = tiny_checkpoint(architecture, tmp_path_factory.mktemp(architecture))
        return made[architecture]

    return of


@pytest.fixture(scope="session")
def checkpoint(tiny: Callable[[str], Path]) -> Callable[[str], Path]:
    """Folder of a model: a tiny architecture or a default model."""
    from bench.assets.models import resolve
    from tests._tiny import ARCHITECTURES

    return lambda name: tiny(name) if name in ARCHITECTURES else resolve(name).path


@pytest.fixture(scope="session")
def engine_of(checkpoint: Callable[[str], Path]):  # type: ignore[no-untyped-def]
    """fp32 engine of a model, loaded once."""
    from bench.engine.engine import Engine

    loaded: dict[str, Engine] = {}

    def of(name: str) -> Engine:
        if name not in loaded:
            loaded[name] = Engine(checkpoint(name), "float32", 4096)
        return loaded[name]

    return of
