"""`qcbench run --wandb`: after the run and its report, never before and never instead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main
from tests.tracking.conftest import Make
from tests.tracking.fake_wandb import FakeWandb

Run = Callable[..., int]


@pytest.fixture
def run(
    make: Make, tmp_path: Path, server: FakeWandb, no_figures: None, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """`qcbench run` whose measuring is a copy of finished rows."""
    done = make(name="done")

    def measure(sweep: Any, out: Path, console: Any, **options: Any) -> int:
        assert server.operations == []
        shutil.copytree(done, out)
        return 1

    monkeypatch.setattr("bench.runners.run.run", measure)
    monkeypatch.setattr("bench.reports.write.write_report", lambda runs, out, console: out / "index.html")
    return lambda *argv: main(["run", "fig10", "--profile", "tiny", "--out", str(tmp_path / "out"), *argv])


@pytest.mark.usefixtures("judged")
def test_offline_is_the_default(run: Run, server: FakeWandb, tmp_path: Path) -> None:
    assert run() == 1  # a row failed, and is mirrored as the others are
    assert len(list((tmp_path / "out" / "wandb").glob("offline-run-*"))) == 4
    assert server.operations == []


def test_off(run: Run, server: FakeWandb, tmp_path: Path) -> None:
    run("--wandb", "off")
    assert not (tmp_path / "out" / "wandb").exists()
    assert server.operations == []


@pytest.mark.usefixtures("judged")
def test_online(run: Run, server: FakeWandb, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--wandb", "online")
    assert len(server.runs) == 4
    assert len(server.views) == 1
    assert not (tmp_path / "out" / "wandb").exists()
    assert capsys.readouterr().out.splitlines()[-1].endswith("index.html")


def test_online_without_a_key_does_not_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", os.devnull)
    assert run("--wandb", "online") == 2
    assert "no API key" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("judged")
def test_a_server_that_fails_after_the_run(
    run: Run, server: FakeWandb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fault = lambda operation: 401
    assert run("--wandb", "online") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.endswith("The rows are untouched; `qcbench publish RUN` goes on where it stopped")
    assert (tmp_path / "out" / "rows.jsonl").is_file()
