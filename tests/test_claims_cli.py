"""`qcbench claims`: what is printed, on real rows and on hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.claims.file import claims
from bench.claims.registry import MEASURES
from bench.claims.table import print_verdicts, shown
from bench.claims.verdict import NO_DATA, NOT_TESTABLE, REPRODUCED, VERDICTS, Verdict
from bench.cli import main
from bench.results.reader import read_rows
from tests._claims import rows_for
from tests._rows import grid, make_row, write_run

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = [ROOT / "results/sample/fig10-cpu", ROOT / "results/sample/fig13-smoke"]
BY_ID = {claim.id: claim for claim in claims()}
HOSTILE = "\x1b[31m[red]<script>alert(1)</script>[/red]\u202e" + "x" * 300


def judged(*runs: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["claims", *map(str, runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {one["id"]: one for one in found["verdicts"]}


def test_sample_runs_have_a_verdict_on_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(*SAMPLES, capsys=capsys)
    assert list(found) == list(BY_ID)
    assert {one["verdict"] for one in found.values()} <= set(VERDICTS)
    for one in found.values():
        assert one["reason"]
        if one["verdict"] in (NO_DATA, NOT_TESTABLE):
            assert (one["n"], one["value"]) == (0, None)
        else:
            assert f"n = {one['n']}" in one["reason"]
            assert "qwen2.5-coder-0.5b" in one["reason"]
            assert "4 chunks of 128 tokens" in one["reason"]
    assert found["prophetkv-crossing-gbps"]["verdict"] == NOT_TESTABLE
    assert found["first-anchors-gain-most"]["verdict"] == NO_DATA


def test_sample_numbers_are_those_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(*SAMPLES, capsys=capsys)
    rows = read_rows(SAMPLES[0])

    def means(method: str) -> Any:
        of_method = rows[(rows["method"] == method) & rows["rho"].between(0.05, 0.95)]
        return of_method.groupby(["dataset", "rho"])["score"].mean()

    by_hand = (means("qcfuse") - means("fusionrag")).mean()
    assert found["qcfuse-above-fusionrag"]["value"] == pytest.approx(by_hand)
    slow = read_rows(SAMPLES[1]).query("bandwidth == '0.5x'").groupby("method")["select_s"].median()
    assert found["slow-store-selection"]["value"] == pytest.approx(slow["qcfuse"] / slow["prophetkv"])


@pytest.mark.parametrize("width", [80, 100, 160])
def test_table_fits_and_names_everything(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["claims", *map(str, SAMPLES)]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    for name in BY_ID:
        assert name in printed, "an id must stand in one piece"
    assert f"{len(BY_ID)} claims: " in " ".join(printed.split())
    assert "(a) judged on qwen2.5-coder-0.5b" in printed


def test_hostile_names_show_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = {"model": HOSTILE, "dataset": HOSTILE, "prediction": HOSTILE}
    rows = [row.model_copy(update=changed) for row in rows_for(BY_ID["full-quality-at-half"], "true")]
    rows += [make_row(method=HOSTILE, params={HOSTILE: HOSTILE}, model=HOSTILE, dataset=HOSTILE)]
    run = write_run(rows, tmp_path / "run", {"datasets": {HOSTILE: {"note": HOSTILE}}})
    assert judged(run, capsys=capsys)["full-quality-at-half"]["verdict"] == REPRODUCED
    assert main(["claims", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "\\x1b[31m[red]<script>" in printed.replace("\n", "")


def test_shown_keeps_what_prints() -> None:
    assert shown("ρ 0.5, é, 中, [red]") == "ρ 0.5, é, 中, [red]"
    assert shown("a\x1b\n\u202eb") == "a\\x1b\\n\\u202eb"


def test_many_different_axes_have_marks_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ("c", "> 0", "+0.1", 0.1, 0.0, 0.2, 9, REPRODUCED, "r")
    verdicts = [Verdict(f"id-{at}", "1", *numbers, axes=f"model {at}") for at in range(30)]
    print_verdicts(verdicts, [], Console(width=100))
    printed = capsys.readouterr().out
    assert all(
        f"{mark} judged on model {at}" in printed for at, mark in ((0, "(a)"), (25, "(z)"), (26, "(aa)"))
    )


def test_json_is_plain_json_with_nulls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(grid(), tmp_path)
    assert main(["claims", str(run), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.isascii()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(printed, parse_constant=refuse)["alarms"] == []


def test_alarms_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row.model_copy(update={"score": 0.0}) for row in grid(datasets=("multihop",))]
    assert main(["claims", str(write_run(rows, tmp_path))]) == 0
    printed = capsys.readouterr().out
    assert "ALARM" in printed
    assert "every score of every method is 0" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("", "holds no row"),
        ('{"a": 1}\n{"a": 2}\n', "not a row"),
        (
            make_row().model_copy(update={"schema_version": 99}).model_dump_json() + "\n\n",
            "schema version 99",
        ),
    ],
)
def test_a_folder_that_is_no_run_is_one_line(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "rows.jsonl").write_text(content)
    assert main(["claims", str(tmp_path)]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1


def test_no_run_at_all_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 2
    assert "RUN" in capsys.readouterr().err


def test_the_page_explains_every_verdict_and_measure() -> None:
    page = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    for word in (*VERDICTS, *MEASURES):
        assert f"`{word}`" in page, word
