"""qcbench doctor: the machine, and the gate of a model, on the tiny architectures."""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from bench.assets import hub
from bench.checks import machine
from bench.cli import main
from bench.commands import doctor
from bench.engine.engine import Engine
from bench.kv import Entry
from bench.trust import model as gate
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


DTYPES = ("float32", "bfloat16")


@pytest.fixture(scope="module")
def engine_in(
    engine_of: Callable[[str], Engine], checkpoint: Callable[[str], Path]
) -> Callable[[str, str], Engine]:
    """Engine of a tiny architecture in a dtype, loaded once."""
    halves: dict[str, Engine] = {}

    def of(architecture: str, dtype: str) -> Engine:
        if dtype == "float32":
            return engine_of(architecture)
        if architecture not in halves:
            halves[architecture] = Engine(checkpoint(architecture), dtype, 4096)
        return halves[architecture]

    return of


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_tiny_architectures_pass(
    architecture: str, dtype: str, engine_in: Callable[[str, str], Engine], checkpoint: Callable[[str], Path]
) -> None:
    found = list(gate.findings(engine_in(architecture, dtype), checkpoint(architecture), reference=True))
    assert [finding.name for finding in found] == NAMES
    assert all(finding.right for finding in found), [f for f in found if not f.right]


@pytest.fixture(params=DTYPES)
def engine(engine_in: Callable[[str, str], Engine], request: pytest.FixtureRequest) -> Engine:
    """Each planted fault has to be seen in both dtypes."""
    return engine_in(ARCHITECTURES[0], request.param)


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


def folder_of(tmp_path: Path, checkpoint: Callable[[str], Path], config: str) -> Path:
    """A checkpoint folder that is whole but for what its config.json says."""
    folder = tmp_path / "odd"
    folder.mkdir()
    for file in checkpoint("llama").iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(config)
    return folder


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"model_type": "gpt2"}', "cannot run the architecture gpt2; supported are"),
        ('{"model_type": "mamba"}', "cannot run the architecture mamba"),
        ('{"model_type": "t5"}', "cannot run the architecture t5"),
        ('{"model_type": "of \\u001b[31mnobody"}', "architecture of \\x1b[31mnobody"),
        ('{"model_type": "llama", "num_attention_heads": "four"}', "field 'num_attention_heads'"),
        ('{"model_type": "llama", "num_attention_heads": 0}', "config.json cannot be used"),
        ('{"auto_map": {"AutoConfig": "mine.Config"}}', "that config.json leaves out"),
        ("{", "is not JSON"),
    ],
)
def test_a_model_that_fusion_cannot_run_on_is_one_line(
    config: str, said: str, tmp_path: Path, checkpoint: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["doctor", "--model", str(folder_of(tmp_path, checkpoint, config))]) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("qcbench: ")
    assert said in err
    assert "Llama, Mistral, Qwen2 and Qwen3" in err


def test_a_model_says_its_traits_as_text(
    tmp_path: Path, checkpoint: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((checkpoint("llama") / "config.json").read_text())
    config["architectures"] = ["\x1b[31m[red]Llama"]
    for trait, seen in gate.traits(folder_of(tmp_path, checkpoint, json.dumps(config))):
        doctor._line(Console(width=200), "good", trait, seen, "")
    out = capsys.readouterr().out
    assert "⟨U+001B⟩[31m[red]Llama, 4 layers" in out
    assert "\x1b" not in out


class Stopped(Exception):
    """Raised where a model would be loaded."""


def stop_at_loading(monkeypatch: pytest.MonkeyPatch, *, cuda: bool) -> list[str]:
    """Dtypes that engines are asked for; none is loaded."""
    asked: list[str] = []

    def load(path: Path, dtype: str, pool_tokens: int) -> Engine:
        asked.append(dtype)
        raise Stopped

    monkeypatch.setattr("bench.engine.engine.Engine", load)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 30, 1 << 36))
    return asked


@pytest.mark.parametrize(
    ("cuda", "given", "dtype"),
    [
        (False, [], "float32"),
        (True, [], "bfloat16"),
        (True, ["--dtype", "float32"], "float32"),
        (False, ["--dtype", "bfloat16"], "bfloat16"),
    ],
)
def test_the_dtype_is_the_devices_where_none_is_given(
    cuda: bool, given: list[str], dtype: str, checkpoint: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = stop_at_loading(monkeypatch, cuda=cuda)
    with pytest.raises(Stopped):
        main(["doctor", "--model", str(checkpoint("llama")), *given])
    assert asked == [dtype]


@pytest.mark.parametrize(("host", "gpu", "room"), [(5, 3, 3), (2, 7, 2), (5, None, 5)])
def test_a_second_copy_needs_room_in_host_memory_and_on_the_gpu(
    host: int, gpu: int | None, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=host))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu is not None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (gpu, 99))
    assert doctor._room() == room


def test_where_the_gpu_has_no_room_transformers_is_not_asked(
    checkpoint: Callable[[str], Path], engine_of: Callable[[str], Engine],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(doctor, "_room", lambda: 0)
    monkeypatch.setattr("bench.engine.engine.Engine", lambda *_: engine_of("llama"))
    assert main(["doctor", "--model", str(checkpoint("llama"))]) == 0
    assert "not compared: too large to load twice" in capsys.readouterr().out


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


@pytest.mark.parametrize(
    ("gib", "major", "state"), [(80, 9, "good"), (48, 8, "note"), (24, 8, "note"), (16, 7, "bad")]
)
def test_gpus(monkeypatch: pytest.MonkeyPatch, gib: int, major: int, state: str) -> None:
    monkeypatch.setattr(machine, "_driver", lambda: "570.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    one = SimpleNamespace(name="H[20]", total_memory=gib << 30, major=major, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: one)
    fact = machine._gpu()
    assert fact.state == state
    assert ("--chunks 4" in fact.fix) == (gib == 24)
    console = Console(width=200, record=True)
    doctor._line(console, fact.state, fact.name, fact.seen, fact.fix)
    assert "H[20]" in console.export_text()


def test_a_folder_that_cannot_be_written_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> tuple[float, str]:
        raise machine.UserError("it is read-only")

    monkeypatch.setattr(machine, "read_rate", refuse)
    (*_, disk) = machine._disks(tmp_path)
    assert (disk.state, "read-only" in disk.seen) == ("bad", True)


def test_a_folder_that_takes_no_new_folder_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    (*_, disk) = machine._disks(tmp_path / "runs" / "one")
    assert disk.state == "bad"
    assert disk.seen.startswith(str(tmp_path / "runs" / "one"))
    assert "cannot be written (Permission denied)" in disk.seen
    assert "--out" in disk.fix


def test_on_a_gpu_nothing_is_said_of_a_speed_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    fact = machine._processor()
    assert fact.state == "good"
    assert "on the GPU runs use bfloat16" in fact.seen
    assert "speed" not in fact.seen


def test_sglang_that_is_not_installed_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = importlib.metadata.version

    def version(name: str) -> str:
        if name == "sglang":
            raise importlib.metadata.PackageNotFoundError(name)
        return honest(name)

    monkeypatch.setattr(machine.importlib.metadata, "version", version)
    sglang, *_ = machine._packages()
    assert (sglang.name, sglang.state, sglang.seen) == ("SGLang", "bad", "absent")
    assert "make setup" in sglang.fix


@pytest.mark.parametrize(
    ("key", "mode", "state", "seen"),
    [
        ("a" * 40, None, "good", "an API key is here"),
        (None, None, "note", "no API key: runs are mirrored offline"),
        ("short", None, "note", "WANDB_API_KEY invalid"),
        ("a" * 40, "offline", "note", "WANDB_MODE=offline"),
    ],
)
def test_the_api_key_is_found_as_tracking_finds_it(
    key: str | None, mode: str | None, state: str, seen: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name, value in (("WANDB_API_KEY", key), ("WANDB_MODE", mode)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    (fact,) = doctor._tracking()
    assert fact.state == state
    assert seen in fact.seen
    assert "qcbench publish RUN" not in fact.seen
    assert capfd.readouterr() == ("", ""), "wandb prints nothing of its own"
