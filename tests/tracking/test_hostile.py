"""Text of rows arrives at W&B, and shows in its report, as text."""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from bench.cli import main
from bench.tracking.content import NAME_LENGTH, read_content
from bench.tracking.markdown import LONGEST, literal, table, visible
from bench.tracking.offline import mirror_offline
from bench.tracking.publish import publish
from tests._rows import make_row
from tests.tracking.conftest import Make, own
from tests.tracking.fake_wandb import FakeWandb
from tests.tracking.wandb_file import load

pytestmark = pytest.mark.usefixtures("judged", "no_figures")
QUIET = Console(file=io.StringIO())
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "[red]markup[/red] [link=https://example.org]here[/link]",
    "| a | b |\n| - | - |\n# head\n**bold** `code` ~~gone~~ $x$ [a](javascript:alert(1)) ![b](c)",
    "word" * 3000,
    "\u202egnp.exe \u200b\u2066 \ufeff \U0001f468\u200d\U0001f469\u200d\U0001f467 "
    "e\u0301\u0302\u0303 \u0000 \u2028 \ue000",
    "' or Config('a') = 'b' -- \\ \" &amp; &#60; ${config:variant}",
    "",
]


def run_of(make: Make) -> Path:
    """Everything that a row has of others' text, hostile; one cell a text."""
    rows = []
    for number, text in enumerate(HOSTILE):
        names = {"method": text or "m", "dataset": text or "d", "model": text or "m", "request": text}
        rows.append(
            make_row(
                **names, cell=f"{number:016x}", prediction=text, references=[text, text], params={text: text},
                status="failed" if number % 2 else "ok", error=text, metric="f1",
            )
        )  # fmt: skip
    return make(rows)


def test_it_arrives_as_text(make: Make, server: FakeWandb) -> None:
    run = run_of(make)
    publish(run, QUIET, timeout=20)
    content = read_content(run)
    for cell, text in zip(content.cells, HOSTILE, strict=True):
        there = server.runs[cell.id]
        assert [own(step) for step in there.history] == cell.steps
        assert there.history[0]["prediction"] == text
        assert there.history[0]["references"] == [text, text]
        assert there.config["method"] == (text or "m")
        assert there.config["params"] == {text: text}
        assert there.name == cell.name
        assert len(there.name) <= NAME_LENGTH
    folder = server.runs[content.folder.id]
    rows = json.loads(folder.files[folder.history[0]["rows"]["path"]])
    assert [line[rows["columns"].index("prediction")] for line in rows["data"]] == HOSTILE


def test_it_is_in_the_offline_files_as_text(make: Make) -> None:
    run = run_of(make)
    out = mirror_offline(run, QUIET)
    held = {one["id"]: one for one in map(load, out.glob("offline-run-*"))}
    for cell, text in zip(read_content(run).cells, HOSTILE, strict=True):
        assert [own(step) for step in held[cell.id]["history"]] == cell.steps
        assert held[cell.id]["history"][0]["prediction"] == text


def test_it_shows_in_the_report_as_text(make: Make, tmp_path: Path) -> None:
    run = run_of(make)
    assert main(["publish", str(run), "--dry-run", "--out", str(tmp_path / "out")]) == 0
    spec = json.loads((tmp_path / "out" / "wandb-report.json").read_text())["spec"]
    markdown = [block["content"] for block in spec["blocks"] if block["type"] == "markdown-block"]
    page = "".join(render(text) for text in markdown)
    assert set(re.findall(r"</?([a-zA-Z0-9]+)", page)) <= {"table", "thead", "tbody", "tr", "th", "td"}
    for text in HOSTILE[:-1]:
        assert visible(text) in html.unescape(page)
    grids = [block["metadata"]["runSets"][0] for block in spec["blocks"] if block["type"] == "panel-grid"]
    assert len(grids) == len(HOSTILE)
    for runset in grids:
        assert [item["key"]["name"] for item in runset["filters"]["filters"]] == ["group", "panel"]


@pytest.mark.parametrize("text", HOSTILE)
def test_one_text_in_markdown(text: str) -> None:
    shown = html.unescape(re.sub(r"</?(p|table|thead|tbody|tr|th|td)>", "", render(literal(text)))).strip()
    assert shown == visible(text).strip()
    assert len(shown) <= 8 * LONGEST
    assert all(sign.isprintable() for sign in shown)
    assert render(table([text, "b"], [[text, text]])).count("<td>") == 2


def render(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
