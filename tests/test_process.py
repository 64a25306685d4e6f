"""qcbench as a process: full devices, closed pipes, signals, locales."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOT_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def started(*argv: object, out: int | None = subprocess.PIPE, **env: str) -> subprocess.Popen[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONUTF8", "PYTHONIOENCODING", "LC_"))}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *map(str, argv)],
        stdout=out, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogateescape",
        env=own | {"PYTHONPATH": path} | env,
    )  # fmt: skip


@pytest.mark.parametrize("argv", [["datasets"], ["--help"], ["--version"], ["completion", "bash"]])
def test_output_that_cannot_be_written_is_one_line(argv: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full, started(*argv, out=full.fileno()) as process:
        error = process.communicate()[1]
    assert process.returncode == 2
    assert error == (
        "qcbench: the output cannot be written (No space left on device); write it somewhere else\n"
    )


@pytest.mark.parametrize("argv", [["datasets"], ["completion", "bash"]])
def test_a_closed_pipe_ends_it_without_a_word(argv: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with started(*argv, out=write) as process:
        os.close(write)
        assert process.communicate()[1] == ""
    assert process.returncode == 141


def test_a_locale_that_is_not_utf8(tmp_path: Path) -> None:
    with started("datasets", **NOT_UTF8) as process:
        out, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert "ruler/vt" in out, "whose word lists a library reads in the locale's encoding"
    out.encode("ascii")  # the terminal keeps its own encoding


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_run_and_loses_nothing(
    how: signal.Signals, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    argv = [
        "run", "fig10", "--profile", "tiny", "--models", tiny("llama"), "--datasets", "multihop",
        "--chunks", 3, "--chunk-tokens", 90, "--requests", 500, "--dtype", "float32",
        "--methods", "full_prefill,epic", "--out", run, "--report", tmp_path / "report",
    ]  # fmt: skip
    with started(*argv, WANDB_MODE="disabled") as process:
        began = time.monotonic()
        while not (run / "rows.jsonl").exists() or not (run / "rows.jsonl").read_bytes():
            assert process.poll() is None
            assert time.monotonic() - began < 120
            time.sleep(0.05)
        process.send_signal(how)
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + how
    said = [line for line in error.splitlines() if line.startswith("qcbench: stopped")]
    assert said == error.splitlines(), error
    assert [json.loads(line)["request"] for line in (run / "rows.jsonl").read_text().splitlines()]
