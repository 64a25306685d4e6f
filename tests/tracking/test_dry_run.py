"""`qcbench publish --dry-run`: the report's JSON, without network or account; and the real sample."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.claims import Verdict, judge
from bench.cli import main
from bench.results.run_folder import RunFolder
from tests.tracking.conftest import IDENTITY, Make

SAMPLES = Path(__file__).parents[2] / "results" / "sample"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account, no connection, no process of W&B's client."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a dry run does nothing of the kind")

    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("wandb.sdk.lib.service.service_process.start", refuse)


@pytest.mark.usefixtures("judged")
def test_it_goes_into_the_run_folder(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    run = make()
    rows = (run / "rows.jsonl").read_bytes()
    assert main(["publish", str(run), "--dry-run", "--project", "p", "--entity", "e"]) == 0
    printed = capsys.readouterr().out
    assert f"report: {run / 'wandb-report.json'}" in printed
    assert "3 cells, 9 requests, one run for the folder" in printed
    made = json.loads((run / "wandb-report.json").read_text())
    assert (made["projectName"], made["entityName"]) == ("p", "e")
    assert made["displayName"] == f"fig10-test {IDENTITY}"
    heads = [block["children"][0]["text"] for block in made["spec"]["blocks"] if block["type"] == "heading"]
    assert heads == [
        "Headline", "model-a", "The paper's claims", "Figures", "Quality against TTFT", "model-a, multihop",
        "How to reproduce",
    ]  # fmt: skip
    assert (run / "rows.jsonl").read_bytes() == rows


@pytest.mark.usefixtures("judged")
def test_a_folder_that_cannot_be_written(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    run = make()
    assert main(["publish", str(run), "--dry-run", "--out", str(run / "rows.jsonl" / "x")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "choose another folder with --out" in line


def test_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Verdict] = []

    def spy(runs: Sequence[RunFolder]) -> list[Verdict]:
        said.extend(judge(runs))
        return said

    monkeypatch.setattr("bench.tracking.report.judge", spy)
    assert main(["publish", str(SAMPLES / "fig13-smoke"), "--dry-run", "--out", str(tmp_path)]) == 0
    blocks = json.loads((tmp_path / "wandb-report.json").read_text())["spec"]["blocks"]
    headline, claims, _ = (b["content"] for b in blocks if b["type"] == "markdown-block")
    assert len(claims.splitlines()) == 2 + len(said) > 2
    for line, verdict in zip(claims.splitlines()[2:], said, strict=True):
        assert f" {verdict.verdict} " in line
    assert "| QCFuse " in headline
    assert next(b for b in blocks if b["type"] == "panel-grid")["metadata"]["runSets"][0]["name"] == "figures"
