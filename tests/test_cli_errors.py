"""What a user can get wrong: one clear line, exit status 2, nothing written is lost."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from tests._timelines import record as timeline_record
from tests._timelines import write_timelines

Cli = Callable[..., str]


@pytest.fixture
def wrong(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command that has to fail; returns its one line."""

    def call(*argv: object) -> str:
        capsys.readouterr()  # what fixtures printed
        assert main([str(a) for a in argv]) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("qcbench: ")
        assert "Traceback" not in lines[0]
        return lines[0]

    return call


@pytest.fixture
def small(tiny: Callable[[str], Path], tmp_path: Path) -> list[object]:
    """A run small enough for a test: a tiny random model, own sizes."""
    return [
        "run", "fig10", "--profile", "tiny", "--models", tiny("llama"), "--datasets", "multihop",
        "--chunks", 3, "--chunk-tokens", 90, "--requests", 1, "--dtype", "float32",
        "--methods", "full_prefill,epic", "--out", tmp_path / "run", "--report", tmp_path / "report",
    ]  # fmt: skip


def changed(argv: list[object], **options: object) -> list[object]:
    """The command with options set: `rho=2` for "--rho 2"."""
    out = list(argv)
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if flag in out:
            out[out.index(flag) + 1] = value
        else:
            out += [flag, value]
    return out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": "nope"}, "unknown method 'nope'"),
        ({"methods": "./nope.py"}, "./nope.py"),
        ({"methods": "epic,epic"}, "named twice"),
        ({"datasets": "nope"}, "unknown dataset 'nope'"),
        ({"datasets": "ruler/nope"}, "ruler/nope"),
        ({"profile": "nope"}, "unknown profile 'nope'"),
        ({"models": "nope"}, "nope"),
        ({"rho": "1.5"}, "from 0 to 1, not 1.5"),
        ({"rho": "-1"}, "from 0 to 1, not -1"),
        ({"rho": "x"}, "numbers from 0 to 1"),
        ({"chunks": "0"}, "chunks"),
        ({"chunk_tokens": "0"}, "chunk-tokens"),
        ({"requests": "0"}, "requests"),
        ({"requests": "many"}, "--requests"),
        ({"dtype": "int3"}, "--dtype"),
        ({"longbench": "/nowhere/data.zip", "datasets": "longbench/musique"}, "/nowhere/data.zip"),
    ],
)
def test_wrong_options(wrong: Cli, small: list[object], options: dict[str, object], message: str) -> None:
    assert message in wrong(*changed(small, **options))


def test_unknown_command_and_experiment(wrong: Cli) -> None:
    assert "nope" in wrong("nope")
    assert "unknown experiment 'nope'; known: faithfulness, fig01, fig09, fig10" in wrong("run", "nope")
    assert "unknown dataset 'nope'" in wrong("datasets", "nope")


def longbench(folder: Path, lines: list[str]) -> Path:
    folder.mkdir()
    (folder / "musique.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def record(**fields: object) -> str:
    whole = {
        "input": "Who?", "context": "Passage 1:\nTown\nAnna lives in the town.", "answers": ["Anna"],
        "length": 7, "dataset": "musique", "language": "en", "all_classes": None, "_id": "1",
    }  # fmt: skip
    whole.update(fields)
    return json.dumps({k: v for k, v in whole.items() if v is not ...})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([record(), "{not json"], "line 2"),
        ([record(answers=...)], "answers"),
        ([record()] * 3, "the _id '1' is there twice"),
    ],
)
def test_wrong_longbench_data(
    wrong: Cli, small: list[object], tmp_path: Path, lines: list[str], message: str
) -> None:
    data = longbench(tmp_path / "lb", lines)
    assert message in wrong(*changed(small, datasets="longbench/musique", longbench=data))


def test_a_zip_that_is_none_and_one_without_the_task(wrong: Cli, small: list[object], tmp_path: Path) -> None:
    bad = tmp_path / "data.zip"
    bad.write_text("no zip")
    argv = changed(small, datasets="longbench/musique", longbench=bad)
    assert "data.zip" in wrong(*argv)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("data/other.jsonl", "")
    assert "musique" in wrong(*argv)


def test_a_context_longer_than_the_models(wrong: Cli, small: list[object], tmp_path: Path) -> None:
    line = wrong(*changed(small, chunks=8, chunk_tokens=512))
    assert "the model's context holds 2048" in line


def test_an_output_folder_that_cannot_be_made(wrong: Cli, small: list[object], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "choose another folder" in wrong(*changed(small, out=tmp_path / "file" / "run"))


def test_a_full_disk_loses_nothing_written(
    wrong: Cli, small: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = changed(small, requests=2)
    real, calls = os.write, []

    def write(file: int, data: bytes) -> int:
        if not bytes(data[:20]).startswith(b'{"schema_version"'):  # the store's
            return real(file, data)
        calls.append(data)
        if len(calls) == 2:
            real(file, data[: len(data) // 2])  # the disk fills up in the middle of a row
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    monkeypatch.setattr("bench.results.writer.os.write", write)
    assert "no space left on the disk" in wrong(*argv)
    monkeypatch.undo()
    rows = (tmp_path / "run" / "rows.jsonl").read_text()
    assert len(rows.splitlines()) == 2
    assert rows.endswith("\n")
    assert main([str(a) for a in argv]) == 0  # room again: it goes on
    after = (tmp_path / "run" / "rows.jsonl").read_text()
    assert after.startswith(rows)
    assert len(after.splitlines()) == 4


def test_a_run_folder_of_another_configuration(wrong: Cli, small: list[object], tmp_path: Path) -> None:
    assert main([str(a) for a in small]) == 0
    rows = (tmp_path / "run" / "rows.jsonl").read_bytes()
    line = wrong(*changed(small, rho=0.5))
    assert "another configuration (rho differ)" in line
    assert (tmp_path / "run" / "rows.jsonl").read_bytes() == rows
    assert main([str(a) for a in [*changed(small, rho=0.5), "--fresh"]]) == 0


def test_a_folder_with_rows_but_no_description(wrong: Cli, small: list[object], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rows.jsonl").write_text("{}\n")
    assert "no run.json" in wrong(*small)
    for content in (b"[1]", b"\xff", b"{"):
        (tmp_path / "run" / "run.json").write_bytes(content)
        assert "give another --out" in wrong(*small)


def test_timelines_that_are_not_there(wrong: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    assert "timelines.jsonl: no such file" in wrong("timeline", run)
    (run / "timelines.jsonl").write_text("")
    assert "holds no timeline" in wrong("timeline", run)
    write_timelines([timeline_record(request="multihop-0-0"), timeline_record(request="multihop-0-1")], run)
    line = wrong("timeline", run, "--request", "multihop-0-7")
    assert "'multihop-0-7' was not recorded; recorded: multihop-0-0, multihop-0-1" in line
    assert "no timeline of nope; recorded: qcfuse" in wrong("timeline", run, "--method", "nope,qcfuse")
    assert "recorded: model-a, multihop" in wrong("timeline", run, "--dataset", "ruler/mq")
    assert "recorded: model-a, multihop" in wrong("timeline", run, "--model", "nope")
    assert "at bandwidth 3x; recorded: 1.5x" in wrong("timeline", run, "--bandwidth", "3x")
    assert "at rho 0.5; recorded: 0.3" in wrong("timeline", run, "--rho", "0.5")
    assert "--rho" in wrong("timeline", run, "--rho", "much")
    assert "choose another folder with --out" in wrong(
        "timeline", run, "--out", run / "timelines.jsonl" / "below"
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["run", "timelines.jsonl"]


def test_a_report_of_nothing(wrong: Cli, tmp_path: Path) -> None:
    assert str(tmp_path) in wrong("report", tmp_path)


@pytest.mark.parametrize("folder", ["file/below", "n" * 300])
def test_folders_are_tried_before_anything_is_measured(
    wrong: Cli, small: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("bench.runners.run.plan", lambda *_: pytest.fail("planned first"))
    bad = tmp_path / folder
    assert "choose another folder with --report" in wrong(*changed(small, report=bad))
    for command in (
        ["compare", "./mine.py"], ["report", tmp_path], ["timeline", tmp_path],
        ["publish", tmp_path, "--dry-run"],
    ):  # fmt: skip
        assert "choose another folder with --out" in wrong(*command, "--out", bad)
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "no folder is left behind"
    monkeypatch.setenv("QCBENCH_CACHE", str(bad))
    assert "set QCBENCH_CACHE to a folder of your own" in wrong(*small)
    assert "set QCBENCH_CACHE to a folder of your own" in wrong("fetch", "smollm2-135m")


def test_a_cache_in_nobodys_home(wrong: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCBENCH_CACHE", "~nobody-is-called-this/cache")
    assert "QCBENCH_CACHE=~nobody-is-called-this/cache" in wrong("fetch", "smollm2-135m")
