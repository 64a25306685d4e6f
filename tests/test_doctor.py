"""qcbench doctor: the machine, and the gate of a model, on the tiny architectures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from bench.assets import hub
from bench.checks import machine
from bench.checks import model as gate
from bench.cli import main
from bench.commands import doctor
from bench.engine.engine import Engine
from bench.kv import Entry
from tests._tiny import ARCHITECTURES

NAMES = [
    "capture",
    "rotate",
    "stitch",
    "rho = 1 equals full prefill",
    "an exact cache equals full prefill",
    "no row sees the future",
    "stale caches are stale",
    "full prefill equals transformers",
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_tiny_architectures_pass(
    architecture: str, engine_of: Callable[[str], Engine], checkpoint: Callable[[str], Path]
) -> None:
    found = list(gate.findings(engine_of(architecture), checkpoint(architecture), reference=True))
    assert [finding.name for finding in found] == NAMES
    assert all(finding.right for finding in found), [f for f in found if not f.right]


@pytest.fixture
def engine(engine_of: Callable[[str], Engine]) -> Engine:
    return engine_of(ARCHITECTURES[0])


def failing(engine: Engine) -> set[str]:
    return {f.name for f in gate.findings(engine, Path(), reference=False) if not f.right}


def test_keys_captured_after_rope_are_noticed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = engine.capture

    def after(ids: list[int], behind: tuple[int, ...] = ()) -> Entry:
        entry = honest(ids, behind)
        turned = torch.stack([engine.rotate(keys, torch.arange(len(ids))) for keys in entry.keys])
        return Entry(turned, entry.values, entry.positions)

    monkeypatch.setattr(engine, "capture", after)
    assert {"capture", "stitch", "an exact cache equals full prefill"} <= failing(engine)


def test_a_rotary_table_that_is_not_relative_is_noticed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = engine.runtime.rotary.cos_sin_cache
    bent = table * torch.linspace(1, 1.5, len(table))[:, None]
    monkeypatch.setitem(engine.runtime.rotary._buffers, "cos_sin_cache", bent)
    assert "rotate" in failing(engine)


def test_rows_that_see_the_future_are_noticed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = engine.fuse

    def released(ids, cached, source, positions, prefix=0):  # type: ignore[no-untyped-def]
        return honest(ids, cached, source, positions, prefix, mask="released")

    monkeypatch.setattr(engine, "fuse", released)
    assert "no row sees the future" in failing(engine)


def test_a_model_that_chunks_do_not_change_is_noticed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(this: gate.Gate, entries: object, positions: torch.Tensor) -> float:
        return 0.0

    monkeypatch.setattr(gate.Gate, "off", same)
    assert "stale caches are stale" in failing(engine)


def test_another_model_than_transformers_reads_is_noticed(
    engine: Engine, checkpoint: Callable[[str], Path]
) -> None:
    other = checkpoint(ARCHITECTURES[1])
    (*_, last) = gate.findings(engine, other, reference=True)
    assert last.name == NAMES[-1]
    assert not last.right


def test_the_command_prints_a_line_a_check(
    checkpoint: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--model", str(checkpoint("qwen3"))]) == 0
    out = capsys.readouterr().out
    assert all(f"ok   {name}" in out for name in NAMES)
    assert "q/k-norm: yes" in out
    assert "fusion is exact on" in out


def test_a_wrong_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--model", "./no-such-model"]) == 2
    assert "there is no model" in capsys.readouterr().err


def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(repo: str) -> None:
        raise hub.NoAnswerError("no answer")

    monkeypatch.setattr(hub, "ask", ask)


def test_the_machine_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_hub(monkeypatch)
    code = main(["doctor", "--out", str(tmp_path / "results")])
    out = capsys.readouterr().out
    for name in ("Python", "SGLang", "packages", "processor", "GPU", "memory", "disk", "model hub", "W&B"):
        assert f" {name}: " in out
    assert code == (1 if "NO  " in out else 0)
    assert not (tmp_path / "results").exists(), "looking leaves nothing behind"


def test_what_is_missing_has_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_hub(monkeypatch)
    monkeypatch.setenv("QCBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("QCBENCH_LONGBENCH", str(tmp_path / "absent.zip"))
    monkeypatch.setattr(machine, "SMOKE_MEMORY", 1 << 60)
    monkeypatch.setattr(machine, "SMOKE_DISK", 1 << 60)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    monkeypatch.setattr(machine.importlib.metadata, "version", lambda name: "0.0.1")
    monkeypatch.setattr(machine.platform, "python_version", lambda: "3.13.0")
    found = {fact.name + fact.seen: fact for fact in machine.facts(tmp_path)}
    bad = {fact.name for fact in found.values() if fact.state == "bad"}
    assert {"Python", "SGLang", "C compiler", "memory", "cache", "data"} <= bad
    assert all(fact.fix for fact in found.values() if fact.state == "bad")
    notes = [fact.seen for fact in found.values() if fact.state == "note"]
    assert any("not yet" in seen for seen in notes)


def test_a_gpu_that_pytorch_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_driver", lambda: "570.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fact = machine._gpu()
    assert fact.state == "bad"
    assert "make setup" in fact.fix


@pytest.mark.parametrize(("gib", "major", "state"), [(80, 9, "good"), (24, 8, "note"), (16, 7, "bad")])
def test_gpus(monkeypatch: pytest.MonkeyPatch, gib: int, major: int, state: str) -> None:
    monkeypatch.setattr(machine, "_driver", lambda: "570.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    one = SimpleNamespace(name="H[20]", total_memory=gib << 30, major=major, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: one)
    fact = machine._gpu()
    assert fact.state == state
    console = Console(width=200, record=True)
    doctor._line(console, fact.state, fact.name, fact.seen, fact.fix)
    assert "H[20]" in console.export_text()


def test_a_folder_that_cannot_be_written_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> tuple[float, str]:
        raise machine.UserError("it is read-only")

    monkeypatch.setattr(machine, "read_rate", refuse)
    (*_, disk) = machine._disks(tmp_path)
    assert (disk.state, "read-only" in disk.seen) == ("bad", True)
