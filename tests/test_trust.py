"""The gate of a run: what it refuses, what goes on all the same, when it is asked anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.cli import main
from bench.engine.engine import Engine, FirstToken
from bench.trust import ask as trust
from bench.trust import model as gate


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCBENCH_CACHE", str(tmp_path / "cache"))


def argv(model: Path, out: Path, *more: str) -> list[str]:
    return ["run", "fig10", "--profile", "tiny", "--models", str(model), "--datasets", "multihop",
            "--methods", "full_prefill,epic", "--rho", "0.3", "--requests", "1", "--chunks", "3",
            "--chunk-tokens", "90", "--dtype", "float32", "--out", str(out),
            "--report", str(out / "report"), *more]  # fmt: skip


def described(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "run.json").read_text())
    return found


@pytest.fixture
def model(tiny: Callable[[str], Path], tmp_path: Path) -> Path:
    """A checkpoint of this test's own."""
    return Path(shutil.copytree(tiny("qwen3"), tmp_path / "model"))


@pytest.fixture
def broken(model: Path) -> Path:
    """One weight is not a number."""
    (file,) = model.glob("*.safetensors")
    weights = load_file(file)
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    return model


def test_a_sound_model_runs_and_its_answer_is_recorded(model: Path, tmp_path: Path) -> None:
    assert main(argv(model, tmp_path / "out")) == 0
    kept = described(tmp_path / "out")["trust"]["model"]
    assert kept["failed"] == []
    assert kept["compared"]
    assert not kept["trusted"]
    names = ["finite logits", "full prefill equals transformers", "rho = 1 equals full prefill"]
    assert [check["name"] for check in kept["checks"]] == names


def test_a_weight_that_is_not_a_number_is_refused(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(argv(broken, out)) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "finite logits" in line
    assert "--trust-model" in line
    assert not (out / "rows.jsonl").exists() or not (out / "rows.jsonl").read_text()
    assert described(out)["trust"]["model"]["failed"] == ["finite logits"]


def test_trusted_on_request_its_rows_fail_and_the_run_says_so(broken: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(argv(broken, out, "--trust-model")) == 1
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert {row["status"] for row in rows} == {"failed"}
    assert all("not finite" in row["error"] and row["score"] is None for row in rows)
    assert described(out)["trust"]["model"]["trusted"]
    assert any("--trust-model" in warning for warning in described(out)["warnings"])


@pytest.fixture
def shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full prefill's logits, and those of fusion, are another model's."""
    for name in ("prefill", "fuse"):
        honest = getattr(Engine, name)

        def other(self: Engine, *args: Any, honest: Any = honest, **named: Any) -> FirstToken:
            first: FirstToken = honest(self, *args, **named)
            first.logits.add_(torch.linspace(0, 8, first.logits.shape[-1]))
            return first

        monkeypatch.setattr(Engine, name, other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.usefixtures("shifted")
def test_a_model_that_transformers_runs_otherwise_is_refused_unless_trusted(
    dtype: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(argv(model, out, "--dtype", dtype)) == 2
    assert "full prefill equals transformers" in capsys.readouterr().err
    assert described(out)["trust"]["model"]["failed"] == ["full prefill equals transformers"]
    assert main(argv(model, out, "--dtype", dtype, "--trust-model")) == 0
    assert any("trusted on request" in warning for warning in described(out)["warnings"])


def test_the_answer_is_kept_until_weights_configuration_or_kernels_change(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def few(engine: Engine, path: Path, reference: bool) -> list[gate.Finding]:
        asked.append(reference)
        return [gate.Finding("finite logits", True, "so")]

    monkeypatch.setattr(trust, "few", few)
    engine = Engine(model, "float32", 1024)
    assert not trust.ask(engine, model, "r1").kept
    again = trust.ask(engine, model, "r1")
    assert again.kept
    assert again.findings == (gate.Finding("finite logits", True, "so"),)
    assert len(asked) == 1
    trust.ask(engine, model, "r2")
    assert len(asked) == 2, "other weights"
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rope_theta": 5.0}))
    trust.ask(engine, model, "r2")
    assert len(asked) == 3, "another configuration"
    kernel = tmp_path / "kernel.py"
    kernel.write_text("x = 1\n")
    monkeypatch.setattr(trust, "sources", lambda: [kernel])
    trust.ask(engine, model, "r2")
    trust.ask(engine, model, "r2")
    kernel.write_text("x = 2\n")
    trust.ask(engine, model, "r2")
    assert len(asked) == 5, "another kernel"


def test_a_model_too_large_to_load_twice_is_checked_alone_and_asked_about_again(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_room", lambda device: 0)
    engine, said = Engine(model, "float32", 1024), []
    for _ in range(2):
        found = trust.ask(engine, model, "r")
        assert (found.compared, found.kept, len(found.findings)) == (False, False, 2)
    trust.require(found, "m", False, said.append)
    assert said == ["not compared with transformers: too large to load twice here"]


def test_the_sources_are_the_engine_the_kernels_and_the_checks() -> None:
    found = {path.parent.name for path in trust.sources()}
    assert found == {"engine", "kernels", "trust"}
