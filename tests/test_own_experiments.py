"""An experiment of one's own is a YAML file; datasets take options in brackets, as methods do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli import main
from bench.commands.arguments import names
from bench.errors import UserError
from bench.experiments import known, profile_of, profiles, resolve, stem_of, written
from bench.specification import canonical, parse

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.integers(), max_size=3)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), VALUES, max_size=3))
def test_what_is_written_in_brackets_is_read_back(options: dict[str, Any]) -> None:
    if any(isinstance(v, str) and set(v) & set("[],=") for v in options.values()):
        return  # brackets and commas end a part on the command line
    text = canonical("ruler/vt", options)
    assert names(f"epic,{text}") == ["epic", text]
    assert parse(text, "dataset") == ("ruler/vt", options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vt[a=1", "write NAME"),
        ("vt[a]", "name=value"),
        ("vt[a=1,a=2]", "a is there twice"),
        ("vt[a={]", "a: cannot"),
    ],
)
def test_brackets_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(UserError, match="dataset 'vt") as caught:
        parse(text, "dataset")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", known())
def test_what_print_writes_is_the_same_experiment(name: str, tmp_path: Path) -> None:
    for profile in profiles(name):
        sweep = resolve(name, profile)
        own = tmp_path / f"{profile}.yaml"
        own.write_text(written(sweep), encoding="utf-8")
        assert resolve(str(own), profile_of(str(own), None)) == sweep
        assert stem_of(str(own), "") == profile


def own(folder: Path, text: str) -> str:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


WHOLE = (
    "models: [m]\ndatasets: [multihop]\nmethods: [epic]\nrho: [0.3]\n"
    "requests: 1\nchunks: 3\nchunk_tokens: 64\n"
)


def test_a_file_with_profiles_of_its_own(tmp_path: Path) -> None:
    path = own(tmp_path, "common:\n  " + WHOLE.replace("\n", "\n  ") + "\nprofiles:\n  mine: {rho: [0.5]}\n")
    sweep = resolve(path, profile_of(path, None))
    assert (sweep.experiment, sweep.profile, sweep.rho) == ("own", "mine", [0.5])
    assert stem_of(path, "mine") == "own-mine"
    with pytest.raises(UserError, match=r"unknown profile 'nope' of .*known: mine"):
        profile_of(path, "nope")
    with pytest.raises(UserError, match="has no profiles"):
        profile_of(own(tmp_path, WHOLE), "smoke")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write settings"),
        ("- 1\n", "write settings"),
        ("rho: [0.3\n", "line 2"),
        ("a: 1\na: 2\n", "line 2: the key 'a' is there twice"),
        (WHOLE + "metods: [epic]\n", "there is no setting 'metods'; there are: about, models"),
        (WHOLE.replace("rho: [0.3]", "rho: 0.3"), "rho: Input should be a valid list"),
        (WHOLE.replace("rho: [0.3]", "rho: [2]"), "rho: rho is a share"),
        (WHOLE.replace("requests: 1", "requests: many"), "requests: Input should be a valid integer"),
        (WHOLE.replace("chunk_tokens: 64\n", ""), "chunk_tokens: Field required"),
        (WHOLE.replace("[multihop]", "[{nme: multihop}]"), "datasets.0.name: Field required"),
        (WHOLE.replace("[multihop]", "['vt[a']"), "dataset 'vt[a': write NAME"),
        ("profiles: []\n", "profiles: write settings"),
        ("profiles: {a: }\n", "profiles.a: write settings"),
        ("rho: [1]\nprofiles: {a: {}}\n", "rho stands beside profiles"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = own(tmp_path, text)
    assert main(["run", path, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert "own.yaml" in line or message.startswith("dataset ")


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.yaml").write_bytes("about: é\n".encode("latin-1"))
    (tmp_path / "folder.yaml").mkdir()
    for name, message in (("nope", "No such file"), ("latin", "is not UTF-8"), ("folder", "Is a directory")):
        assert main(["run", str(tmp_path / f"{name}.yaml")]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line


def test_print_then_run_then_options_told_apart(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        "run", "fig10", "--profile", "tiny", "--models", str(tiny("llama")), "--requests", "1",
        "--chunk-tokens", "90", "--dtype", "float32", "--methods", "full_prefill,epic",
        "--datasets", "multihop,multihop[hops=1]",
    ]  # fmt: skip
    assert main([*argv, "--print"]) == 0
    path = own(tmp_path, capsys.readouterr().out)
    assert main(["run", path, "--out", str(tmp_path / "run"), "--report", str(tmp_path / "report")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert {row["dataset"] for row in rows} == {"multihop", "multihop[hops=1]"}
    shown = capsys.readouterr().out
    assert "multihop[hops=1], request" in shown, "not taken for the terminal's markup"
    assert main([*argv, "--out", str(tmp_path / "run"), "--report", str(tmp_path / "report")]) == 0, (
        "the same run"
    )


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ("multihop[hops=1],multihop[hops=1]", "is there twice"),
        ("multihop,multihop[hops=2]", "come to the same"),
        ("multihop[hop=1]", "has no parameter 'hop'; it has: hops"),
        ("multihop[hops=many]", "hops: Input should be a valid integer"),
        ("multihop[hops=1", "write NAME"),
    ],
)
def test_wrong_options_of_a_dataset(
    tiny: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    datasets: str,
    message: str,
) -> None:
    argv = [
        "run",
        "fig10",
        "--profile",
        "tiny",
        "--models",
        str(tiny("llama")),
        "--datasets",
        datasets,
        "--dry-run",
    ]
    assert main([*argv, "--dtype", "float32", "--chunk-tokens", "90", "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
