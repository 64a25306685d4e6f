"""Whole runs on a tiny random model: rows, resuming, failures, determinism."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.cli import main
from bench.engine.sglang import Runtime

ROOT = Path(__file__).resolve().parents[1]
METHODS = "full_prefill,direct_reuse,cacheblend,epic,fusionrag,prophetkv,qcfuse,random_tokens"


def command(model: Path, out: Path, **options: object) -> list[str]:
    chosen: dict[str, object] = {
        "models": model, "datasets": "multihop,ruler/single", "methods": METHODS, "rho": "0.3", "requests": 3,
        "chunks": 3, "chunk-tokens": 90, "dtype": "float32", "out": out, "report": out / "report", **options,
    }  # fmt: skip
    flags = [str(x) for k, v in chosen.items() for x in (f"--{k}", v)]
    return ["run", "fig10", "--profile", "tiny", *flags]


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]


def essence(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What has to be the same in every run: predictions, selections, bytes."""
    keys = (
        "prediction",
        "selection_sha256",
        "score",
        "bytes_total",
        "bytes_before_fusion",
        "positions_recomputed",
    )
    return {(r["cell"], r["request"]): tuple(str(r[k]) for k in keys) for r in rows}


@pytest.fixture(scope="module")
def undisturbed(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in a process of its own."""
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    subprocess.run([sys.executable, "-m", "bench", *command(tiny("qwen3"), out)], cwd=ROOT, check=True)
    return out


def test_rows_and_description(undisturbed: Path) -> None:
    rows = rows_of(undisturbed)
    assert len(rows) == 2 * 3 * 8
    assert {r["status"] for r in rows} == {"ok"}
    for row in rows:
        parts = row["select_s"] + row["load_s"] + row["recompute_s"] + row["first_token_s"]
        assert row["ttft_s"] == pytest.approx(parts)
        if row["method"] not in ("full_prefill", "cacheblend"):
            assert row["rho_effective"] == pytest.approx(row["rho"], abs=1 / row["context_tokens"])
    requests = {(r["dataset"], r["request"]): r["request_sha256"] for r in rows}
    assert all(r["request_sha256"] == requests[r["dataset"], r["request"]] for r in rows)
    described = json.loads((undisturbed / "run.json").read_text())
    for key in ("sweep", "identity", "models", "datasets", "versions", "host", "git", "warm", "sessions"):
        assert key in described
    assert described["datasets"]["multihop"]["note"] == "LongBench-format, not LongBench"


def test_figures_and_table_files(undisturbed: Path) -> None:
    for name in ("fig10.png", "fig10.svg", "fig11.png", "fig11.svg", "summary.csv"):
        assert (undisturbed / "report" / name).stat().st_size > 1000


def test_methods_are_interleaved_in_another_order_for_each_request(undisturbed: Path) -> None:
    orders: dict[tuple[str, str], list[str]] = {}
    for row in rows_of(undisturbed):
        orders.setdefault((row["dataset"], row["request"]), []).append(row["method"])
    assert len({tuple(order) for order in orders.values()}) > 1


def test_five_kills_leave_each_row_once_and_the_same_predictions(
    undisturbed: Path, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    argv = [sys.executable, "-m", "bench", *command(tiny("qwen3"), out)]
    draw, kills, sizes = random.Random(11), 0, []
    rows = out / "rows.jsonl"
    while kills < 5:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = rows.stat().st_size if rows.exists() else 0
        deadline = time.monotonic() + 120
        # At a random moment: while loading, or some time after the next request is written.
        wait_for_rows = kills > 0
        while process.poll() is None and time.monotonic() < deadline:
            if not wait_for_rows or (rows.exists() and rows.stat().st_size > before):
                break
            time.sleep(0.02)
        time.sleep(draw.uniform(0.0, 0.4) if wait_for_rows else draw.uniform(1.0, 6.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        sizes.append(rows.stat().st_size if rows.exists() else 0)
        if kills == 3:  # a write torn by the kill
            with rows.open("ab") as file:
                file.write(b'{"schema_version":1,"cell":"')
    assert sizes[-1] > 0
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    done = rows_of(out)
    assert set(Counter((r["cell"], r["request"]) for r in done).values()) == {1}
    assert essence(done) == essence(rows_of(undisturbed))
    assert len(json.loads((out / "run.json").read_text())["sessions"]) >= 2


def test_a_run_grows(undisturbed: Path, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    """One request, then three on the same folder, are three at once, row for row; fewer change nothing."""
    out = tmp_path / "grown"
    for n in (1, 3):
        assert main(command(tiny("qwen3"), out, requests=n)) == 0
    assert essence(rows_of(out)) == essence(rows_of(undisturbed))
    before = (out / "rows.jsonl").read_bytes()
    assert main(command(tiny("qwen3"), out, requests=2)) == 0
    assert (out / "rows.jsonl").read_bytes() == before


def test_a_finished_run_is_not_run_again(undisturbed: Path, tiny: Callable[[str], Path]) -> None:
    files = [undisturbed / name for name in ("rows.jsonl", "run.json", "timelines.jsonl")]
    before = [path.read_bytes() for path in files]
    began = time.monotonic()
    assert main(command(tiny("qwen3"), undisturbed)) == 0
    assert time.monotonic() - began < 60
    assert [path.read_bytes() for path in files] == before, "who measured nothing leaves no trace"


def test_a_dry_run_writes_nothing(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(tiny("qwen3"), tmp_path / "dry"), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "16 cells, 48 measured requests" in printed
    assert "minutes" in printed
    assert not (tmp_path / "dry").exists()


def test_the_disk_tier_gives_the_same_answers_and_rebuilds_damage(
    undisturbed: Path, tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "disk"
    argv = command(tiny("qwen3"), out, store="disk", requests=1)
    assert main(argv) == 0
    expected = {k[1]: v for k, v in essence(rows_of(undisturbed)).items()}
    for row in rows_of(out):
        same = [
            r for r in rows_of(undisturbed) if (r["method"], r["request"]) == (row["method"], row["request"])
        ]
        assert row["prediction"] == same[0]["prediction"]
        assert row["bytes_total"] == same[0]["bytes_total"]
    assert expected
    entries = list((out / "store").glob("*.kv"))
    assert entries
    for path in entries:
        content = bytearray(path.read_bytes())
        content[len(content.rstrip(b"\0")) - 1] ^= 1  # the last byte that is no padding
        path.write_bytes(content)
    (out / "rows.jsonl").unlink()
    capsys.readouterr()
    assert main(argv) == 0
    assert "rebuilding it" in capsys.readouterr().out
    warnings = json.loads((out / "run.json").read_text())["warnings"]
    assert any("rebuilding it" in text for text in warnings)
    assert all("rebuilding it" in text or "layers agree" in text for text in warnings)
    assert {r["status"] for r in rows_of(out)} == {"ok"}


def with_a_method(model: Path, folder: Path, hook: str) -> tuple[Path, list[str]]:
    """A run folder and the command that runs full prefill and a user's method with one hook."""
    mine = folder / "mine.py"
    mine.write_text(
        "from dataclasses import dataclass\nfrom bench.method import Method\n"
        f"@dataclass\nclass Mine(Method):\n    '''Mine.'''\n    def {hook}\nMETHOD = Mine\n"
    )
    out = folder / "run"
    return out, command(model, out, methods=f"full_prefill,{mine}", requests=1, datasets="multihop")


def test_a_failing_method_is_a_row_and_the_run_goes_on(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, argv = with_a_method(
        tiny("qwen3"), tmp_path, "select(self, request, view, budget): return view.no_such_thing"
    )
    assert main(argv) == 1
    rows = {r["method"]: r for r in rows_of(out)}
    assert rows["full_prefill"]["status"] == "ok"
    assert rows["mine"]["status"] == "failed"
    assert "no_such_thing" in rows["mine"]["error"]
    assert "Traceback" in (out / "errors.log").read_text()
    assert "1 rows failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("boom"), "failed"), (torch.OutOfMemoryError("full"), "oom")]
)
def test_what_fails_while_answers_are_written_fails_alone(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    error: Exception, status: str,
) -> None:  # fmt: skip
    argv = command(
        tiny("qwen3"), tmp_path / "run", methods="full_prefill,epic", requests=2, datasets="multihop"
    )
    real, calls = Runtime.decode, []

    def decode(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise error
        return real(*args)

    monkeypatch.setattr(Runtime, "decode", decode)
    assert main(argv) == 1
    statuses = [(row["request"], row["status"]) for row in rows_of(tmp_path / "run")]
    assert statuses == [("multihop-0-0", status)] * 2 + [("multihop-0-1", "ok")] * 2


def test_a_compressed_run_is_not_run_into(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    argv = command(tiny("qwen3"), out, methods="full_prefill,epic", requests=1, datasets="multihop")
    assert main(argv) == 0
    for name in ("rows.jsonl", "prompts.jsonl"):
        (out / f"{name}.gz").write_bytes(gzip.compress((out / name).read_bytes()))
        (out / name).unlink()
    capsys.readouterr()
    assert main(argv) == 2
    assert "holds a finished run, compressed" in capsys.readouterr().err
    assert main([*argv, "--fresh"]) == 0
    assert not list(out.glob("*.gz"))
    assert main(argv) == 0


def test_a_skipping_method_is_a_row(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    out, argv = with_a_method(tiny("qwen3"), tmp_path, "skip(self, request): return 'too short a context'")
    assert main(argv) == 0
    assert {r["method"]: r["status"] for r in rows_of(out)} == {"full_prefill": "ok", "mine": "skipped"}


def test_ctrl_c_keeps_what_is_written(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = [sys.executable, "-m", "bench", *command(tiny("qwen3"), out, requests=50)]
    process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not (out / "rows.jsonl").exists() or not (out / "rows.jsonl").stat().st_size:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from here" in errors
    assert "Traceback" not in errors
    assert len(rows_of(out)) % 8 == 0


@pytest.mark.models
def test_the_tiny_profile_on_a_real_model_twice(tmp_path: Path) -> None:
    """Fresh processes give identical predictions and selections."""
    for name in ("one", "two"):
        argv = ["run", "fig10", "--profile", "tiny", "--out", str(tmp_path / name)]
        argv += ["--report", str(tmp_path / name / "report")]
        subprocess.run([sys.executable, "-m", "bench", *argv], cwd=ROOT, check=True)
    one, two = (rows_of(tmp_path / name) for name in ("one", "two"))
    assert essence(one) == essence(two)
    assert len(one) == 2 * 2 * 9
    assert {r["status"] for r in one} == {"ok"}
