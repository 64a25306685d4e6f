"""Where a run comes from: code, packages, machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import resource
import subprocess
from pathlib import Path
from typing import Any

import psutil
import torch

PACKAGES = (
    "sglang",
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "datasets",
    "numpy",
    "safetensors",
    "wonderwords",
)


def environment() -> dict[str, Any]:
    """Versions, host and git state of this process."""
    return {"versions": _versions(), "host": _host(), "git": _git()}


def peak_rss_bytes() -> int:
    """The most memory this process has held: weights, caches, working set, and what libraries took."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _versions() -> dict[str, str]:
    installed = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return {"python": platform.python_version(), **{p: installed.get(p, "absent") for p in PACKAGES}}


def _host() -> dict[str, Any]:
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text(encoding="utf-8").splitlines()
            if "model name" in line
        ]
        model = names[0] if names else model
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(), "cpu": model, "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1), "gpus": gpus,
        "threads": torch.get_num_threads(), "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
    }  # fmt: skip


def _git() -> dict[str, Any]:
    """Commit and hash of what differs from it; {"commit": None} outside a checkout."""
    root = Path(__file__).resolve().parents[2]

    def ask(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=True)
        return done.stdout

    try:
        commit, dirty = ask("rev-parse", "HEAD").strip(), ask("status", "--porcelain") + ask("diff", "HEAD")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return {"commit": None}
    changed = bool(dirty.strip())
    return {"commit": commit, "dirty_sha256": hashlib.sha256(dirty.encode()).hexdigest() if changed else None}
