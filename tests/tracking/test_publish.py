"""Publishing to the stand-in: what arrives, and that a second time changes nothing."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path

import pytest
import wandb
import wandb_workspaces.reports.v2 as wr
from rich.console import Console

from bench.claims import Verdict
from bench.cli import main
from bench.errors import UserError
from bench.tracking.content import DIGEST, ROWS_DIGEST, read_content
from bench.tracking.publish import publish
from bench.tracking.session import client
from tests.tracking.conftest import IDENTITY, Make, own, rows_of_run
from tests.tracking.fake_wandb import ENTITY, FakeWandb

pytestmark = pytest.mark.usefixtures("judged")
QUIET = Console(file=io.StringIO())
WRITES = {"UpsertBucket", "file_stream", "upload", "CreateArtifact", "CommitArtifact", "upsertView"}


def test_it_arrives_as_it_is(make: Make, server: FakeWandb, capsys: pytest.CaptureFixture[str]) -> None:
    run = make()
    before = {path: path.read_bytes() for path in run.iterdir()}
    assert main(["publish", str(run), "--project", "fusion", "--timeout", "20"]) == 0
    printed = capsys.readouterr().out
    assert "4 runs sent, 0 were there already: acme/fusion" in printed
    assert f"report written: {server.url}/acme/fusion/reports/fig10-test-{IDENTITY}--" in printed
    assert {path: path.read_bytes() for path in run.iterdir()} == before

    content = read_content(run)
    assert set(server.runs) == {mirrored.id for mirrored in [*content.cells, content.folder]}
    for cell in content.cells:
        there = server.runs[cell.id]
        assert [own(step) for step in there.history] == cell.steps
        assert own(there.summary) == cell.summary | {DIGEST: cell.digest}
        assert own(there.config) == cell.config | {ROWS_DIGEST: cell.rows_digest}
        assert (there.name, there.group, there.job_type) == (cell.name, IDENTITY, "cell")
        assert (there.state, there.project) == ("finished", "fusion")
    folder = server.runs[content.folder.id]
    for name in ("fig10", "fig11"):
        picture = folder.files[folder.history[0][f"figures/{name}"]["path"]]
        assert picture.startswith(b"\x89PNG")
    table = json.loads(folder.files[folder.history[0]["rows"]["path"]])
    predictions = table["columns"].index("prediction")
    assert [line[predictions] for line in table["data"]] == [row.prediction for row in rows_of_run()]
    assert server.artifact(f"rows-{IDENTITY}") == {path.name: data for path, data in before.items()}


@pytest.mark.usefixtures("no_figures")
def test_a_second_time_changes_nothing(make: Make, server: FakeWandb) -> None:
    run = make()
    first = publish(run, QUIET, timeout=20)
    there = copy.deepcopy((server.runs, server.views, server.artifacts, server.uploads))
    server.operations.clear()
    assert publish(run, QUIET, timeout=20) == first
    assert not WRITES & set(server.operations)
    assert (server.runs, server.views, server.artifacts, server.uploads) == there


@pytest.mark.usefixtures("no_figures")
def test_what_changed_but_rows_is_sent_anew(
    make: Make, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.tracking.upload.ASKED", 2)  # several questions
    first = publish(make(), QUIET, timeout=20)
    before = copy.deepcopy(server.runs)
    out = io.StringIO()
    again = make(name="again", git={"commit": "beef", "dirty_sha256": None})
    assert publish(again, Console(file=out), timeout=20) == first
    assert "4 runs sent, 0 were there already" in out.getvalue()
    (view,) = server.views.values()
    content = read_content(again)
    assert content.digest in view["description"]
    for cell in content.cells:
        assert server.runs[cell.id].config["git"]["commit"] == "beef"
        assert server.runs[cell.id].history == before[cell.id].history


@pytest.mark.usefixtures("no_figures")
def test_measured_anew_is_refused(make: Make, server: FakeWandb) -> None:
    rows = rows_of_run()
    publish(make(rows), QUIET, timeout=20)
    there = copy.deepcopy(server.runs)
    rows[-1] = rows[-1].model_copy(update={"prediction": "another answer"})
    with pytest.raises(
        UserError, match=r"holds cell 0000000000000002 with other rows.*give another --project"
    ):
        publish(make(rows, "again"), QUIET, timeout=20)
    assert server.runs == there


@pytest.mark.usefixtures("no_figures")
def test_a_cell_of_another_folder_is_not_overwritten(make: Make, server: FakeWandb) -> None:
    publish(make(), QUIET, timeout=20)
    there = copy.deepcopy(server.runs)
    with pytest.raises(
        UserError, match=r"acme/qcfuse-bench holds cell 0000000000000000 from another run folder"
    ):
        publish(make(name="other", identity="f" * 16), QUIET, timeout=20)
    assert server.runs == there


def test_the_report(make: Make, server: FakeWandb, judged: list[Verdict]) -> None:
    address = publish(make(), QUIET, project="fusion", timeout=20)
    (view,) = server.views.values()
    assert (view["displayName"], view["projectName"]) == (f"fig10-test {IDENTITY}", "fusion")
    with client(20):
        report = wr.Report.from_url(address)
    kinds = [type(block).__name__ for block in report.blocks]
    heads = [block.text for block in report.blocks if type(block).__name__ == "H2"]
    assert heads == ["Headline", "The paper's claims", "Figures", "Quality against TTFT", "How to reproduce"]
    headline, claims, versions = (b.text for b in report.blocks if isinstance(b, wr.MarkdownBlock))
    assert "| Full prefill | 1 | none | 0.55 " in headline
    assert judged[0].verdict in claims
    assert "3.11.7" in versions
    figures, pareto = (b for b in report.blocks if isinstance(b, wr.PanelGrid))
    assert figures.panels[0].media_keys == ["figures/fig10", "figures/fig10_ratio", "figures/fig11"]
    assert [(p.x.name, p.y.name) for p in pareto.panels] == [("ttft_s", "score"), ("speedup", "score")]
    for grid in (figures, pareto):
        (runs,) = grid.runsets
        assert (runs.entity, runs.project) == (ENTITY, "fusion")
        assert IDENTITY in runs.filters
    (code,) = (b.code for b in report.blocks if isinstance(b, wr.CodeBlock))
    assert code == "git checkout c0ffee\nmake setup\n.venv/bin/qcbench run fig10 --profile test"
    assert "CalloutBlock" not in kinds


@pytest.mark.usefixtures("no_figures")
def test_names_come_from_the_environment(
    make: Make, server: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "elsewhere")
    assert main(["publish", str(make()), "--timeout", "20"]) == 0
    assert {run.project for run in server.runs.values()} == {"elsewhere"}


@pytest.mark.usefixtures("no_figures")
def test_nothing_of_the_client_is_left(make: Make, server: FakeWandb, tmp_path: Path) -> None:
    publish(make(), QUIET, timeout=20)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert wandb.run is None
