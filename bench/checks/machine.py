"""What this machine has and lacks for the suite, one finding a line, each with one fix (`qcbench doctor`)."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import torch

from bench.assets import cache, haystack, hub
from bench.assets.models import DEFAULTS, is_fetched
from bench.engine.sglang import VERSION
from bench.errors import UserError
from bench.kv import Entry
from bench.runners.precision import faster_dtype
from bench.store.buffers import aligned
from bench.store.disk import DiskStore

State = Literal["good", "note", "bad"]
GIB = 1 << 30
SMOKE_MEMORY, SMOKE_DISK = 6 * GIB, 4 * GIB
"""A smoke run of Qwen2.5-Coder-0.5B, docs/results/performance.md; both default models and the environment's
caches."""
LITE_GPU_MEMORY, LITE_GPU_LEAST = 52 * GIB, 26 * GIB
"""Qwen3-8B in bf16 (15 GiB) and the 7 GiB that SGLang keeps free; in the pool all 20 cells of a request
(1.44 GiB each) or two of them."""


@dataclass(frozen=True)
class Fact:
    """Something about the machine: what it is for, what was found, and what to do where it is not good."""

    name: str
    state: State
    seen: str
    fix: str = ""


def facts(results: Path) -> Iterator[Fact]:
    """Look at Python, packages, processor, GPU, memory, disk, models and data, one after the other.

    `results` is a folder on the disk that runs are written to. Measures for a few seconds; asks the model
    hub and waits for it five seconds at most. What cannot be measured is a finding, not an error.
    """
    yield _python()
    yield from _packages()
    yield _compiler()
    yield _processor()
    yield _gpu()
    yield _memory()
    yield from _disks(results)
    yield from _models()
    yield _essays()
    yield _longbench()
    yield _hub()


def _python() -> Fact:
    version = platform.python_version()
    good = version.startswith("3.11.")
    return Fact(
        "Python", "good" if good else "bad", version, "the pinned packages are for Python 3.11: make setup"
    )


def _packages() -> Iterator[Fact]:
    """The pinned versions, where the requirements lie beside the package."""
    kind = "gpu" if torch.version.cuda else "cpu"
    path = Path(__file__).parents[2] / "requirements" / f"{kind}.txt"
    found = _installed("sglang")
    yield Fact(
        "SGLang",
        "good" if found == VERSION else "bad",
        found,
        f"the engine is written for {VERSION}: make setup",
    )
    if not path.is_file():
        return
    pins = [
        line.split("==")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "==" in line and line[0] != "#"
    ]
    wrong = []
    for name, version in ((name.strip(), rest.split(";")[0].strip()) for name, rest in pins):
        here = _installed(name)
        if here.split("+")[0] != version.split("+")[0]:
            wrong.append(f"{name} {here}, not {version}")
    seen = f"{len(pins)} as pinned in {path.name}" if not wrong else "; ".join(wrong[:5])
    if len(wrong) > 5:
        seen += f"; and {len(wrong) - 5} more"
    yield Fact("packages", "note" if wrong else "good", seen, "make clean setup")


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _compiler() -> Fact:
    found = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    return Fact(
        "C compiler", "good" if found else "bad", found or "none",
        "SGLang and Triton compile small parts: install gcc (Debian: apt install gcc)",
    )  # fmt: skip


def _processor() -> Fact:
    cores = len(os.sched_getaffinity(0))
    dtype, seconds = faster_dtype()
    seen = f"{cores} cores, {torch.get_num_threads()} threads"
    if not seconds:  # nothing to measure: there is a GPU
        return Fact("processor", "good", f"{seen}; on the GPU runs use {dtype}")
    seen += f"; bf16 runs at {seconds['float32'] / seconds['bfloat16']:.1f}x the speed of fp32"
    if os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE":
        return Fact(
            "processor", "note", seen, "threads that spin disturb each other: OMP_WAIT_POLICY=PASSIVE"
        )
    return Fact("processor", "good", f"{seen}, so runs use {dtype}")


def _gpu() -> Fact:
    driver = _driver()
    if not torch.cuda.is_available():
        if driver is None:
            return Fact("GPU", "note", "none; profiles tiny, smoke and cpu need none, lite and paper do")
        fix = "this environment is for CPUs: rm -rf .venv, then make setup"
        return Fact("GPU", "bad", f"driver {driver} answers, PyTorch {torch.__version__} sees no GPU", fix)
    each = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = ", ".join(f"{p.name} ({p.total_memory / GIB:.0f} GiB, cc {p.major}.{p.minor})" for p in each)
    seen = f"{names}; driver {driver}, CUDA {torch.version.cuda}"
    if each[0].major < 8:
        return Fact("GPU", "bad", seen, "bf16 and the kernels need compute capability 8.0 or later")
    if each[0].total_memory < LITE_GPU_LEAST:
        return Fact(
            "GPU", "note", seen, f"profile lite needs about {LITE_GPU_LEAST // GIB} GiB: try --chunks 4"
        )
    if each[0].total_memory < LITE_GPU_MEMORY:
        return Fact(
            "GPU", "note", seen,
            f"profile lite decodes a request's cells in several batches below {LITE_GPU_MEMORY // GIB} GiB: "
            "slower, no less right",
        )  # fmt: skip
    return Fact("GPU", "good", seen)


def _driver() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else None


def _memory() -> Fact:
    memory = psutil.virtual_memory()
    seen = f"{memory.total / GIB:.0f} GiB, {memory.available / GIB:.0f} free"
    fix = f"a smoke run needs {SMOKE_MEMORY // GIB} GiB: close something, or --models smollm2-135m"
    return Fact("memory", "good" if memory.available >= SMOKE_MEMORY else "bad", seen, fix)


def _disks(results: Path) -> Iterator[Fact]:
    """Free space where the cache lies; space and speed where stores are written."""
    free = shutil.disk_usage(_standing(cache.root())).free
    fix = f"the models need {SMOKE_DISK // GIB} GiB: make room, or set QCBENCH_CACHE to another disk"
    enough = free >= SMOKE_DISK or all(map(is_fetched, DEFAULTS))
    yield Fact("cache", "good" if enough else "bad", f"{cache.root()}, {free / GIB:.0f} GiB free", fix)
    free = shutil.disk_usage(_standing(results)).free
    seen = f"{free / GIB:.0f} GiB free"
    if free < GIB:
        yield Fact("disk", "bad", seen, "a run needs 1 GiB: make room, or --out on another disk")
        return
    try:
        rate, how = read_rate(_standing(results))
    except (UserError, OSError) as error:
        why = f"cannot be written ({error.strerror})" if isinstance(error, OSError) else str(error)
        yield Fact("disk", "bad", f"{results}, {seen}; {why}", "choose another folder with --out")
        return
    yield Fact(
        "disk", "good" if how.startswith("direct") else "note", f"{seen}; {rate / 1e9:.2f} GB/s, {how}",
        "reads cannot bypass the page cache here, so pages are dropped between requests; another disk can",
    )  # fmt: skip


def read_rate(folder: Path, layers: int = 32) -> tuple[float, str]:
    """Bytes a second of the disk tier under `folder`, 2 MiB a read, and how it reads.

    Raises `UserError` or `OSError` where the folder cannot be written or read.
    """
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=folder) as work:
        store = DiskStore(Path(work))
        shape = (layers, 512, 8, 128)
        keys, values = torch.randn(2, *shape).bfloat16()
        store.put("it", Entry(keys, values, torch.arange(512)))
        buffer = aligned(store.layer_bytes("it"))
        with store.hold(["it"]):
            store.cool()
            began = time.perf_counter()
            for layer in range(layers):
                store.read("it", range(layer, layer + 1), ("keys", "values"), lambda size: buffer)
            seconds = time.perf_counter() - began
        return layers * store.layer_bytes("it") / seconds, store.how


def _standing(path: Path) -> Path:
    """The nearest folder that exists."""
    path = path.resolve()
    # not Path.is_dir, which raises where a folder above may not be looked into
    return next(p for p in (path, *path.parents) if os.path.isdir(p))


def _models() -> Iterator[Fact]:
    for name in DEFAULTS:
        here = is_fetched(name)
        yield Fact(
            "model", "good" if here else "note", f"{name}: {'here' if here else 'not yet'}", "make fetch"
        )


def _essays() -> Fact:
    here = haystack.are_fetched()
    return Fact(
        "data", "good" if here else "note", f"RULER's essays: {'here' if here else 'not yet'}", "make fetch"
    )


def _longbench() -> Fact:
    path = os.environ.get("QCBENCH_LONGBENCH")
    if path is not None:
        there = Path(path).exists()
        return Fact(
            "data", "good" if there else "bad", f"LongBench: {path}", "QCBENCH_LONGBENCH names no such path"
        )
    return Fact("data", "note", "LongBench: from the hub when asked for", "or give --longbench data.zip")


def _hub() -> Fact:
    fix = "connect, or name models and data by local paths; the built-in models need no hub"
    try:
        hub.ask("Qwen/Qwen3-8B")
    except (hub.NoAnswerError, UserError) as error:
        return Fact("model hub", "note", f"no answer ({error})", fix)
    return Fact("model hub", "good", "answers")
