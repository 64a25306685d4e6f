"""The page as a file: complete, self-contained, small, and safe whatever the rows say."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import logging
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.cli import main
from bench.reports.write import write_report
from bench.results.reader import read_run_info
from bench.results.report import open_run
from tests._rows import grid, make_row, write_run
from tests.browser._runs import HOSTILE, INFO, data_of, shown_run

DATASET = "[red]<b>d</b>"
SAMPLE = Path(__file__).parents[1] / "results" / "sample"


def write(*runs: Path, out: Path) -> Path:
    return write_report(runs, out, Console(file=StringIO(), width=100))


def test_sample_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["report", str(SAMPLE / "fig10-cpu"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(out / "index.html")
    text = (out / "index.html").read_text("utf-8")
    info = read_run_info(SAMPLE / "fig10-cpu")
    assert len(text.encode()) < 5_000_000
    assert text.count("<figure>") == 4  # fig10, over the effective ratio, recall, fig11
    prompts = {one["dataset"] for one in data_of(out / "index.html")["requests"] if one["prompt"]}
    assert prompts == {"multihop", "ruler/vt"}, "the others' text is not ours to pass on"
    for part in (
        "qcbench run fig10 --profile cpu --out results/fig10-cpu", "LongBench-format, not LongBench",
        "rows.jsonl.gz", "n = 24 requests a point", info["git"]["commit"],
    ):  # fmt: skip
        assert part in text
    for figure in re.findall(r"<figure>.*?</figure>", text, re.DOTALL):
        assert "LongBench-format, not LongBench" in figure
        assert "rows.jsonl.gz" in figure
    link = re.search(r'href="([^"]*rows\.jsonl\.gz)"', text)
    assert link is not None
    assert (out / link[1]).resolve() == (SAMPLE / "fig10-cpu" / "rows.jsonl.gz").resolve()


def test_verdicts_come_first(tmp_path: Path) -> None:
    text = write(shown_run(tmp_path / "run"), out=tmp_path / "out").read_text("utf-8")
    body = text[text.index("<main") :]
    assert re.findall(r'<section id="(\w+)"', body)[:3] == ["claims", "headline", "warnings"]
    verdicts = re.findall(r'<tr id="claim-([\w-]+)">', body)
    from bench.claims import judge

    judged = judge([open_run(tmp_path / "run")])
    assert sorted(verdicts) == sorted(one.id for one in judged)
    for one in judged:
        row = body[body.index(f'<tr id="claim-{one.id}">') :]
        assert html.escape(one.verdict) in row[: row.index("</tr>")]


def test_nothing_is_fetched_and_only_its_own_code_may_run(tmp_path: Path) -> None:
    text = write(shown_run(tmp_path / "run", HOSTILE), out=tmp_path / "out").read_text("utf-8")
    markup = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"<(link|iframe|object|embed|base|form)\b", markup)
    assert not re.search(r'\s(style|on\w+)="', markup)
    assert all(source.startswith("data:") for source in re.findall(r'\ssrc="([^"]*)', markup))
    assert not re.search(r'href="(?!#)[a-z]+:', markup)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_text_is_text(tmp_path: Path) -> None:
    rows = [
        make_row(**fields, prediction=HOSTILE, references=[HOSTILE], model=HOSTILE[:60], dataset=DATASET)
        for fields in (
            {"method": "full_prefill", "rho": 1.0},
            {"method": '"><script>window.pwned = 3</script>', "params": {"</script>": "<i>"}},
            {"method": "epic", "status": "failed", "score": None, "error": HOSTILE},
        )
    ]  # fmt: skip
    info = {
        "experiment": "<b>fig</b>", "sessions": [{"command": ["run", "<script>x</script>"]}],
        "versions": {"<u>": "\x1b[0m"}, "datasets": {DATASET: {"note": "<script>note</script>"}},
        "warnings": ["<script>warn</script>"],
    }  # fmt: skip
    page = write(write_run(rows, tmp_path / "<run>", info), out=tmp_path / "out")
    text = page.read_text("utf-8")
    assert text.count("<script") == 2  # the data and the code
    assert not re.search(r"<(b>fig|b>d|u>|img src=x|i>|script>[wnx])", text)
    assert not set("\x1b\u202e\u200b\u2028") & set(text)
    assert "&lt;script&gt;note&lt;/script&gt;" in text
    prediction = data_of(page)["requests"][0]["cells"][0]["prediction"]
    assert prediction.startswith("<script>window.pwned = 1</script>")
    assert "⟨U+001B⟩[31mred" in prediction
    assert prediction.endswith("w" * 10_000)


def test_failed_rows_show_no_nan(tmp_path: Path) -> None:
    rows = [make_row(status="failed", score=None, ttft_s=None, select_s=None, error=None)]
    text = write(write_run(rows, tmp_path / "run"), out=tmp_path / "out").read_text("utf-8")
    assert not re.search(
        r"\b(nan|None|NaN)\b", re.sub(r"<(script|style)\b.*?</\1>|data:[^\"]*", "", text, flags=re.S)
    )
    assert "1 rows of qcfuse failed: no message" in text


def test_several_runs(tmp_path: Path) -> None:
    one = shown_run(tmp_path / "a" / "same")
    two = write_run(grid(datasets=("ruler/vt",), n=3), tmp_path / "b" / "same", INFO)
    page = write(one, two, one, out=tmp_path / "out")
    assert {panel["run"] for panel in data_of(page)["pareto"]} == {"same", "same-2"}
    assert (tmp_path / "out" / "same-2" / "fig10.png").is_file()
    text = page.read_text("utf-8")
    assert 'href="same-2/summary.csv"' in text
    assert text.count("<figure>") == 4
    assert "same-2 kept no prompts" in text


def test_predicted_numbers_are_watermarked(tmp_path: Path) -> None:
    rows = [row.model_copy(update={"predicted": True}) for row in grid(datasets=("ruler/mq",), n=3)]
    text = write(write_run(rows, tmp_path / "run"), out=tmp_path / "out").read_text("utf-8")
    assert text.count('<div class="picture predicted">') == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", None, "no such file"),
        ("rows.jsonl", "", "holds no row"),
        ("rows.jsonl", '{"schema_version": 99}\n', "rows.jsonl:1"),
        ("run.json", "[1]", "expected a JSON object"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None, message: str
) -> None:
    run = shown_run(tmp_path / "run", n=2)
    (run / name).unlink()
    if content is not None:
        (run / name).write_text(content)
    assert main(["report", str(run), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize("name", ["prompts.jsonl", "selections.jsonl"])
@pytest.mark.parametrize("line", ['{"foreign": 1}', "no json"])
def test_a_foreign_line_beside_the_rows_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, line: str
) -> None:
    run = shown_run(tmp_path / "run", n=2)
    expected = data_of(write(run, out=tmp_path / "out"))["requests"]
    with (run / name).open("a") as file:
        file.write(line + "\n")
    with caplog.at_level(logging.WARNING):  # SGLang raises the level
        assert data_of(write(run, out=tmp_path / "out"))["requests"] == expected
    assert f"{name}:" in caplog.text
    assert "left out" in caplog.text


def test_a_newer_schema_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run([make_row(schema_version=2)], tmp_path / "run")
    assert main(["report", str(run), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "schema version 2, this harness reads 1" in error


def test_a_place_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    run = write_run(grid(datasets=("ruler/mq",), n=2), tmp_path / "run")
    assert main(["report", str(run), "--out", str(tmp_path / "file" / "out")]) == 2
    assert "choose another folder with --out" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["run.json", "prompts.jsonl", "selections.jsonl", "timelines.jsonl"])
def test_missing_files_leave_a_page(tmp_path: Path, missing: str) -> None:
    run = shown_run(tmp_path / "run", n=2)
    (run / missing).unlink()
    page = write(run, out=tmp_path / "out")
    assert data_of(page)["requests"]
    assert ("kept no prompts" in page.read_text("utf-8")) == (missing == "prompts.jsonl")


def test_the_same_run_twice_is_the_same_page(tmp_path: Path) -> None:
    run = shown_run(tmp_path / "run", n=2)
    first, second = (write(run, out=tmp_path / "out").read_bytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("failed", [0, 3])
def test_a_run_ends_with_the_address_of_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failed: int
) -> None:
    monkeypatch.setattr("bench.runners.run.run", lambda *_, **__: failed)  # the rows are there already
    run, out = shown_run(tmp_path / "run", n=2), tmp_path / "out"
    argv = ["run", "fig10", "--profile", "tiny", "--out", str(run), "--report", str(out), "--wandb", "off"]
    assert main(argv) == (1 if failed else 0)
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == str(out / "index.html")
    assert ("3 rows failed" in said) == bool(failed)
    assert (out / "index.html").is_file()


def test_what_is_known_of_each_dataset_is_shown(tmp_path: Path) -> None:
    """Prompts of one dataset alone (the others' may not be passed on): requests of both are there."""
    run = shown_run(tmp_path / "run")
    lines = (run / "prompts.jsonl").read_text("utf-8").splitlines()
    (run / "prompts.jsonl").write_text(
        "".join(f"{line}\n" for line in lines if '"multihop"' in line), "utf-8"
    )
    page = write(run, out=tmp_path / "out")
    prompts = {(one["dataset"], bool(one["prompt"])) for one in data_of(page)["requests"]}
    assert prompts == {("multihop", True), ("ruler/mq", False)}
    assert "kept no prompts of ruler/mq:" in page.read_text("utf-8")


def test_a_run_in_which_all_failed_has_a_page(tmp_path: Path) -> None:
    rows = [make_row(status="failed", score=None, ttft_s=None, select_s=None, error="boom")]
    run = write_run(rows, tmp_path / "run", {"experiment": "fig10"})
    (run / "timelines.jsonl").write_text("")
    assert "1 rows of qcfuse failed: boom" in write(run, out=tmp_path / "out").read_text("utf-8")


@pytest.mark.parametrize("length", [2, 20])
def test_an_instruction_as_long_as_the_context_is_said(tmp_path: Path, length: int) -> None:
    run = shown_run(tmp_path / "run")
    prompts = [json.loads(line) for line in (run / "prompts.jsonl").read_text("utf-8").splitlines()]
    for prompt in prompts:
        prompt["instruction"] = [" x"] * length
    (run / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts), "utf-8")
    out = StringIO()
    page = write_report([run], tmp_path / "out", Console(file=out, width=100)).read_text("utf-8")
    said = "its instruction is 83% as long as its context"  # 20 of 24 tokens
    assert (said in page) == (length == 20)
    assert (said in " ".join(out.getvalue().split())) == (length == 20)


def test_a_method_measured_on_fewer_datasets_says_so(tmp_path: Path) -> None:
    lost = {"status": "failed", "score": None, "ttft_s": None, "error": "boom"}
    rows = [
        row.model_copy(update=lost) if (row.method, row.dataset) == ("epic", "ruler/vt") else row
        for row in grid(n=4)
    ]
    out = StringIO()
    page = write_report(
        [write_run(rows, tmp_path / "run", INFO)], tmp_path / "out", Console(file=out, width=100)
    )
    assert page.read_text("utf-8").count("on 2 of 3 datasets") == 1
    assert "EPIC (2 of 3)" in out.getvalue()
