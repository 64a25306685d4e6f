"""The offline mirror: what is read back from its files is what the rows say; nothing of it runs before."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from bench.errors import UserError
from bench.tracking.after_run import mirror, mode_before_run
from bench.tracking.content import DIGEST, ROWS_DIGEST, read_content
from bench.tracking.offline import MARKER, mirror_offline
from tests.tracking.conftest import IDENTITY, Make, own
from tests.tracking.fake_wandb import FakeWandb
from tests.tracking.wandb_file import load

QUIET = Console(file=io.StringIO())


def test_an_offline_run_read_back_equals_the_rows(make: Make, server: FakeWandb) -> None:
    run = make()
    before = {path: path.read_bytes() for path in run.iterdir()}
    out = mirror_offline(run, QUIET)
    assert server.operations == []
    assert {path: path.read_bytes() for path in run.iterdir() if path != out} == before
    held = {one["id"]: one for one in map(load, out.glob("offline-run-*"))}
    content = read_content(run)
    assert set(held) == {mirrored.id for mirrored in [*content.cells, content.folder]}
    for cell in content.cells:
        one = held[cell.id]
        assert [own(step) for step in one["history"]] == cell.steps
        assert [step["_step"] for step in one["history"]] == [0, 1, 2]
        assert own(one["config"]) == cell.config | {ROWS_DIGEST: cell.rows_digest}
        assert own(one["summary"]) == cell.summary | {DIGEST: cell.digest}
        assert (one["name"], one["group"], one["job_type"]) == (cell.name, IDENTITY, "cell")
        assert not one["kinds"] & {"stats", "output", "output_raw", "environment"}
    folder = held[content.folder.id]
    logged = {key.split(".")[0] for key in folder["history"][0]}  # "figures/fig10.path" and so on
    assert {"figures/fig10", "figures/fig11", "summary", "rows"} <= logged
    assert f"rows-{IDENTITY}" in folder["artifacts"]


@pytest.mark.usefixtures("no_figures")
def test_it_is_written_once_for_the_same_rows(make: Make, server: FakeWandb) -> None:
    run = make()
    out = mirror_offline(run, QUIET)
    names = sorted(path.name for path in out.iterdir())
    mirror_offline(run, QUIET)
    assert sorted(path.name for path in out.iterdir()) == names
    (out / MARKER).write_text("{")
    mirror_offline(run, QUIET)
    assert len(list(out.glob("offline-run-*"))) == 4


def test_a_wandb_folder_of_somebody_else_is_left_alone(make: Make) -> None:
    run = make()
    (run / "wandb").mkdir()
    (run / "wandb" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not a mirror that qcbench wrote"):
        mirror_offline(run, QUIET)
    assert (run / "wandb" / "mine.txt").read_text() == "mine"


def test_off_writes_nothing(make: Make) -> None:
    run = make()
    mirror(run, "off", QUIET)
    assert not (run / "wandb").exists()


@pytest.mark.parametrize(
    ("asked", "said", "mode"),
    [
        (None, None, "offline"), (None, "disabled", "off"), (None, "offline", "offline"),
        (None, "online", "online"), ("off", "online", "off"), ("offline", "disabled", "offline"),
        ("online", None, "online"),
    ],
)  # fmt: skip
def test_which_mode(
    asked: str | None, said: str | None, mode: str, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        monkeypatch.setenv("WANDB_MODE", said)
    assert mode_before_run(asked) == mode
    assert server.operations == []


def test_online_wants_a_key_before_the_run(server: FakeWandb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", "/dev/null")
    with pytest.raises(UserError, match=r"no API key; run `wandb login`.*--dry-run"):
        mode_before_run("online")
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(UserError, match="WANDB_MODE='sometimes'"):
        mode_before_run(None)


def test_nothing_of_wandb_is_there_while_a_run_is_measured(server: FakeWandb) -> None:
    threads, children = threading.active_count(), psutil.Process().children()
    mode_before_run("online")
    assert threading.active_count() == threads
    assert psutil.Process().children() == children
    code = (
        "import sys; from bench.tracking.after_run import mode_before_run; "
        "mode_before_run('offline'); sys.exit('wandb' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
