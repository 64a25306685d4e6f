"""A small finished run, a stand-in for W&B's server, and verdicts that need no claims file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.claims import Verdict
from bench.results.schema import Row
from tests._rows import point, write_run
from tests.tracking.fake_wandb import FakeWandb

IDENTITY = "0123456789abcdef"
Make = Callable[..., Path]


def info_of(rows: list[Row]) -> dict[str, Any]:
    """A run.json that names what the rows are of."""
    return {
        "experiment": "fig10", "profile": "test", "identity": IDENTITY, "dtype": "bfloat16",
        "models": {row.model: {"revision": "r1", "source": "test"} for row in rows},
        "datasets": {row.dataset: {"note": "a note"} for row in rows},
        "methods": [{"name": name, "params": {}} for name in {row.method: 0 for row in rows}],
        "sweep": {"requests": 3, "chunks": 4, "chunk_tokens": 128, "seed": 0, "rho": [0.1, 0.3]},
        "git": {"commit": "c0ffee", "dirty_sha256": None}, "versions": {"python": "3.11.7"},
        "host": {"cpu": "a cpu", "gpus": []},
        "sessions": [{"command": ["run", "fig10", "--profile", "test"]}],
    }  # fmt: skip


def own(values: dict[str, Any]) -> dict[str, Any]:
    """Without the keys that W&B's client adds to a step, a summary and a configuration."""
    return {key: value for key, value in values.items() if not key.startswith("_")}


def rows_of_run() -> list[Row]:
    """Full prefill and two points of a method on one dataset, three requests each."""
    points = [("full_prefill", 1.0, 0.9, 3.0), ("qcfuse", 0.1, 0.4, 1.0), ("qcfuse", 0.3, 0.8, 1.5)]
    rows = []
    for number, (method, rho, score, ttft) in enumerate(points):
        rows += point(
            [score, score / 2, score / 3], [ttft, ttft * 1.1, ttft * 1.3],
            method=method, rho=rho, cell=f"{number:016x}", prediction="an answer", references=["it", "them"],
            bytes_total=10_000_000_001, rho_effective=rho,
        )  # fmt: skip
    return rows


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write a run folder from rows (default: `rows_of_run`), with a run.json that fits them."""

    def of(rows: list[Row] | None = None, name: str = "run", **changed: Any) -> Path:
        some = rows_of_run() if rows is None else rows
        return write_run(some, tmp_path / name, info_of(some) | changed)

    return of


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWandb]:
    """The stand-in, with the environment that points W&B's client at it."""
    fake = FakeWandb()
    for name in ("WANDB_ENTITY", "WANDB_PROJECT", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_BASE_URL", fake.url)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    yield fake
    fake.stop()
    assert fake.unknown == []


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    for where in ("publish", "offline"):
        monkeypatch.setattr(f"bench.tracking.{where}.draw", lambda run, out: [])


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """Verdicts in place of those of the claims file."""
    verdicts = [
        Verdict(
            "speed", "4.2.3", "1.7x over full prefill", ">= 1.7", "1.9x", 1.9, 1.8, 2.0, 3, "reproduced", "-"
        )
    ]
    monkeypatch.setattr("bench.tracking.report.judge", lambda runs: verdicts)
    return verdicts
