"""A server that fails: one clear line in bounded time, rows untouched, and a second publish goes on."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from bench.cli import main
from bench.errors import UserError
from bench.tracking.content import read_content
from bench.tracking.publish import publish
from tests.tracking.conftest import Make, own
from tests.tracking.fake_wandb import FakeWandb, Fault

pytestmark = pytest.mark.usefixtures("judged", "no_figures")
QUIET = Console(file=io.StringIO())


def only(operation: str, fault: int | str) -> Fault:
    return lambda asked: fault if asked == operation else None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda operation: 401, "log in anew with `wandb login --relogin`"),
        (lambda operation: 500, "did not answer well within 2 s"),
        (lambda operation: "hang", "did not answer well within 2 s"),
        (only("UpsertBucket", 500), "HTTP 500"),
        (only("file_stream", 401), "the server took 0 of 1 runs"),
        (only("file_stream", "hang"), "did not answer well within 2 s"),
        (only("upload", 500), "did not answer well within 2 s"),
        (only("CommitArtifact", "hang"), "did not answer well within 2 s"),
        (only("upsertView", 500), "HTTP 500"),
    ],
    ids=[
        "401", "500", "hang", "run-500", "stream-401", "stream-hang", "upload-500",
        "artifact-hang", "report-500",
    ],
)  # fmt: skip
def test_a_server_that_fails(
    fault: Fault, said: str, make: Make, server: FakeWandb, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make()
    before = {path: path.read_bytes() for path in run.iterdir()}
    server.fault = fault
    began = time.monotonic()
    assert main(["publish", str(run), "--timeout", "2"]) == 2
    assert time.monotonic() - began < 30
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("qcbench: W&B: ")
    assert said in line
    assert line.endswith("The rows are untouched; `qcbench publish RUN` goes on where it stopped")
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_nobody_there(make: Make, server: FakeWandb) -> None:
    server.stop()
    with pytest.raises(UserError, match="The rows are untouched"):
        publish(make(), QUIET, timeout=2)


@pytest.mark.parametrize("how", ["close", 500])
def test_a_server_that_dies_half_way(how: str | int, make: Make, server: FakeWandb) -> None:
    run, seen = make(), Counter[str]()

    def fault(operation: str) -> int | str | None:
        seen[operation] += 1
        return how if seen["file_stream"] > 3 else None

    server.fault = fault
    with pytest.raises(UserError, match="goes on where it stopped"):
        publish(run, QUIET, timeout=3)
    content = read_content(run)
    states = [server.runs[cell.id].state for cell in content.cells if cell.id in server.runs]
    assert states == ["finished", "running"]
    server.fault = lambda operation: None
    server.operations.clear()
    out = io.StringIO()
    publish(run, Console(file=out), timeout=20)
    assert "3 runs sent, 1 were there already" in out.getvalue()
    for cell in content.cells:
        assert [step["request"] for step in server.runs[cell.id].history] == ["r0", "r1", "r2"]
        assert server.runs[cell.id].state == "finished"
    assert len(server.views) == 1


def test_a_history_that_is_there_in_part(make: Make, server: FakeWandb) -> None:
    run = make()
    publish(run, QUIET, timeout=20)
    cell = server.runs[f"{1:016x}"]
    whole = [own(step) for step in cell.history]
    cell.history, cell.summary, cell.state = cell.history[:1], {}, "crashed"
    out = io.StringIO()
    publish(run, Console(file=out), timeout=20)
    assert "1 runs sent, 3 were there already" in out.getvalue()
    assert [step["_step"] for step in cell.history] == [0, 1, 2]
    assert [own(step) for step in cell.history] == whole
    assert cell.state == "finished"


def test_a_publisher_that_is_killed(make: Make, server: FakeWandb, tmp_path: Path) -> None:
    run = make()
    server.fault = only("CommitArtifact", "hang")
    code = (
        "import sys; from pathlib import Path; from rich.console import Console; "
        "from bench.tracking import publish; publish.draw = lambda run, out: []; "
        "publish.publish(Path(sys.argv[1]), Console())"
    )
    argv = [sys.executable, "-c", code, str(run)]
    env = os.environ | {"TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        argv, cwd=root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as killed:
        until = time.monotonic() + 60
        while "CommitArtifact" not in server.operations and time.monotonic() < until:
            time.sleep(0.05)
        killed.kill()
    assert len(server.runs) == 4
    server.fault = lambda operation: None
    out = io.StringIO()
    publish(run, Console(file=out), timeout=20)
    assert "1 runs sent, 3 were there already" in out.getvalue()


def test_no_key(
    make: Make, server: FakeWandb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", os.devnull)
    assert main(["publish", str(make())]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("qcbench: W&B: no API key; run `wandb login` or set WANDB_API_KEY")
    assert "--dry-run" in line
    assert server.operations == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--project", "a/b"], "--project 'a/b': W&B takes 1 to 128 characters"),
        (["--entity", "\x1b[31m"], r"--entity '\x1b[31m': W&B takes"),
        (["--timeout", "0"], "--timeout 0: give seconds, more than 0"),
        (["--timeout", "soon"], "argument --timeout"),
        (["--out", "x"], "--out goes with --dry-run"),
    ],
)
def test_arguments_that_are_wrong(
    argv: list[str], said: str, make: Make, server: FakeWandb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", str(make()), *argv]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line
    assert not {"UpsertBucket", "upsertView"} & set(server.operations)
