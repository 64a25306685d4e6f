"""The page's parts: foreign text, embedded data, warnings, tables, the budget of the browser's data."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bench.reports import browser as browser_module
from bench.reports.browser import browser
from bench.reports.embed import json_block, policy
from bench.reports.figures import smaller
from bench.reports.provenance import provenance
from bench.reports.remarks import remarks, unstable
from bench.reports.run_view import RunView
from bench.reports.tables import headlines, points
from bench.reports.text import visible
from bench.results.report import open_run
from tests._bandwidth import sweep
from tests._rows import frame_of, grid, make_row, point, write_run
from tests.browser._runs import shown_run


def view(rows: list[Any], folder: Path, info: dict[str, Any] | None = None) -> RunView:
    return RunView(open_run(write_run(rows, folder, info)), "run")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ρ, tab\t and\nline", "plain ρ, tab\t and\nline"),
        ("\x1b[31mred\x07\x00", "⟨U+001B⟩[31mred⟨U+0007⟩⟨U+0000⟩"),
        ("a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ("z\u200bero\ufeff", "z⟨U+200B⟩ero⟨U+FEFF⟩"),
        ("line\u2028end", "line⟨U+2028⟩end"),
        ("del\x7f \x9b", "del⟨U+007F⟩ ⟨U+009B⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("family 👩\u200d👧, क्\u200dष, e\u0301", "family 👩\u200d👧, क्\u200dष, e\u0301"),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_what_does_not_show_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_json_cannot_end_its_script() -> None:
    content = {"text": "</script><!-- \u2028 & '\"", "nan": float("nan"), "list": (1.5, None)}
    block = str(json_block(content))
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block) == {"text": content["text"], "nan": None, "list": [1.5, None]}


def test_policy_names_the_hash_of_what_it_allows() -> None:
    found = policy("p {}", "run();")
    for text in ("p {}", "run();"):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in found
    assert found.startswith("default-src 'none';")
    assert "unsafe" not in found


def test_the_smaller_figure_is_taken_but_an_svg_may_be_larger(tmp_path: Path) -> None:
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    png.write_bytes(b"x" * 100)
    for size, best in ((50, svg), (200, svg), (201, png), (700_000, png)):
        svg.write_bytes(b"x" * size)
        assert smaller([png, svg]) == best


def test_remarks(tmp_path: Path) -> None:
    rows = point([0.5, 1.0], [1.0, 1.0], method="full_prefill", rho=1.0) + point([0.5, 0.5], [1.0, 1.0])
    rows += [make_row(request="r8", status="failed", score=None, ttft_s=None, error="boom <b>\nmore")]
    rows += [make_row(request="r9", status="skipped", score=None, ttft_s=None, method="epic")]
    info = {
        "datasets": {
            "multihop": {"note": "not LongBench", "source": {"share_answer_lost": 0.25}, "requests_short": 2}
        },
        "git": {"commit": "0" * 40, "dirty_sha256": "1" * 64},
        "warnings": ["a damaged cache was rebuilt"],
        "sessions": [{"host": {"cpu": "a"}}, {"host": {"cpu": "b"}}],
    }  # fmt: skip
    found = remarks(view(rows, tmp_path, info))
    text = "\n".join(one.text for one in found)
    for part in (
        "1 rows of qcfuse failed: boom <b>", "1 rows of epic were skipped", "took the answer out of 25.0%",
        "2 requests have fewer chunks", "multihop: not LongBench", "a damaged cache was rebuilt",
        "code differed from its commit", "2 sessions on machines that differ", "At most 2 requests a point",
    ):  # fmt: skip
        assert part in text
    assert "more" not in text.splitlines()[0]
    assert [one.level for one in found] == sorted(
        (one.level for one in found), key=("bad", "warn", "note").index
    )


def test_remarks_of_a_clean_run_are_none(tmp_path: Path) -> None:
    rows = grid(datasets=("ruler/mq",), n=40)
    assert remarks(view(rows, tmp_path, {"git": {"commit": "0", "dirty_sha256": None}})) == []


def test_predicted_rows_are_called_so(tmp_path: Path) -> None:
    rows = [row.model_copy(update={"predicted": True}) for row in grid(datasets=("ruler/mq",), n=4)]
    run = view(rows, tmp_path)
    assert run.predicted
    assert "predicted" in remarks(run)[0].text


def test_a_torn_line_and_a_missing_run_json_are_told(tmp_path: Path) -> None:
    write_run(grid(datasets=("ruler/mq",), n=2), tmp_path)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"schema_version": 1, "ce')
    text = " ".join(one.text for one in remarks(RunView(open_run(tmp_path), "run")))
    assert "was cut short" in text
    assert "no run.json" in text


def test_unstable_points(tmp_path: Path) -> None:
    rows = point([1.0] * 5, [1.0, 1.0, 1.01, 1.02, 1.0], method="epic")
    assert unstable(frame_of(rows, tmp_path / "a")) == []
    rows += point([1.0] * 5, [1.0, 1.0, 1.0, 1.0, 2.5], method="fusionrag")  # one slow request
    rows += point([1.0] * 5, [1.0, 2.0, 1.5, 1.2, 1.9], method="qcfuse", bandwidth="2x")  # wide
    rows += point([1.0] * 3, [1.0, 9.0, 1.5], method="prophetkv")  # too few to tell
    found = unstable(frame_of(rows, tmp_path / "b"))
    assert [line.split(",")[2].strip() for line in found] == ["FusionRAG", "QCFuse"]
    assert "slowest request 2.5 medians" in found[0]
    assert "2x" in found[1]


def test_headline_of_ratios(tmp_path: Path) -> None:
    rows = point([1.0, 1.0], [2.0, 2.0], method="full_prefill", rho=1.0) + point([1.0, 1.0], [1.0, 1.0])
    rows += point([0.0, 0.0], [0.5, 0.5], method="epic")
    (table,) = headlines(view(rows, tmp_path))
    lines = {line[0].text: line[1:] for line in table.lines}
    assert lines["QCFuse"][0].text == "2.00x"
    assert lines["QCFuse"][0].small == "[2.00, 2.00], 100% of draws"
    assert lines["QCFuse"][1].text == "1.00, 2.00x"
    assert lines["EPIC"][0].text == "not reached"
    assert table.columns[2] == "multihop (n = 2): F1 at ρ = 0.3, speed-up"


def test_headline_of_a_bandwidth_sweep(tmp_path: Path) -> None:
    run = view(sweep([1, 5, None], n=3), tmp_path, {"experiment": "fig13"})
    assert run.sweeps_bandwidth
    (table,) = headlines(run)
    assert table.title == "Crossing with full prefill"
    assert {line[0].text for line in table.lines} == {"ProphetKV", "QCFuse"}
    assert len(points(run).lines) == len(run.summary)


def test_variants_are_told_apart_without_rho_and_bandwidth(tmp_path: Path) -> None:
    rows = [
        make_row(params={"a": a}, bandwidth=b, rho=r)
        for a in (1, 2)
        for b in ("1x", "2x")
        for r in (0.1, 0.3)
    ]
    assert set(view(rows, tmp_path).labels.values()) == {"QCFuse (a=1)", "QCFuse (a=2)"}


def test_provenance_of_odd_run_json(tmp_path: Path) -> None:
    rows = grid(datasets=("ruler/mq",), n=2)
    odd = {"sessions": "x", "git": [], "methods": {}, "host": {"gpus": [], "cpu": "c"}, "models": {"m": "x"}}
    facts = dict(provenance(view(rows, tmp_path, odd)))
    assert facts["machine"] == "cpu c"
    assert facts["commit"] == "not recorded"
    assert view(rows, tmp_path, odd).commands == []


def test_browser_data(tmp_path: Path) -> None:
    data = browser([RunView(open_run(shown_run(tmp_path)), "run")])
    assert data["left_out"] == 0
    ids = [(one["dataset"], one["request"]) for one in data["requests"]]
    assert ids == [("multihop", "r0"), ("multihop", "r1"), ("ruler/mq", "r0"), ("ruler/mq", "r1")]
    request = data["requests"][0]
    assert "".join(request["prompt"]["context"][:2]) == " r0t0 r0t1"
    cell = next(one for one in request["cells"] if (one["method"], one["rho"]) == ("qcfuse", 0.3))
    assert cell["layers"] == [[0, 3, "0-2,9-10,20"]]
    assert cell["prediction"] == "qcfuse says r0 at 0.3"
    assert len(cell["timeline"]["layers"]) == 4
    # two threads read at once: one stretch
    assert cell["timeline"]["reads"]["select"] == [[1.0, 50.0]]
    full = next(one for one in request["cells"] if one["method"] == "full_prefill")
    assert full["bandwidth"] is None


def test_browser_of_a_run_without_prompts(tmp_path: Path) -> None:
    bad = make_row(request="r0", method="epic", rho=0.2, status="failed", score=None, error="boom\nx")
    rows = [*grid(datasets=("multihop",), n=5), bad]
    rows = [row.model_copy(update={"cell": f"{row.method}{row.rho}{row.status}"}) for row in rows]
    requests = browser([view(rows, tmp_path)])["requests"]
    assert [one["request"] for one in requests] == ["r0", "r1", "r2"]
    assert all(one["prompt"] is None for one in requests)
    failed = next(one for one in requests[0]["cells"] if one["status"] == "failed")
    assert (failed["error"], failed["prediction"], failed["score"]) == ("boom", None, None)


def test_browser_data_keeps_to_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunView(open_run(shown_run(tmp_path)), "run")
    sizes = [len(json.dumps(one, ensure_ascii=False)) for one in browser([run])["requests"]]
    monkeypatch.setattr(browser_module, "BUDGET", 2 * max(sizes))
    data = browser([run])
    assert data["left_out"] == 2
    # the first request of each dataset is kept before the second of any
    assert [(one["dataset"], one["request"]) for one in data["requests"]] == [
        ("multihop", "r0"),
        ("ruler/mq", "r0"),
    ]
