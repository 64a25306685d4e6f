"""The W&B report of a run: headline table, claims, figures, Pareto panels, how to reproduce."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.claims import judge
from bench.figures.style import full_label, order, variant_label
from bench.results.conditions import cautions, conditions, instruction_cached
from bench.results.effective import differs
from bench.results.endings import cut_text
from bench.results.points import PANEL, POINT, dataset_notes, family
from bench.results.table import seconds
from bench.tracking.content import FOLDER, NAME_LENGTH, Content, panel_key
from bench.tracking.markdown import table, visible

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Block, Report


AXES = [key for key in POINT if key not in (*PANEL, "method", "params")]
"""What tells the points of a variant apart."""
PARETO = "One point a cell. Good ones lie high: on the left over TTFT, on the right over speed-up."


def title(content: Content) -> str:
    """The report's title, one for each run folder: a report is found again by it."""
    info = content.run.info
    return f"{info.get('experiment', 'run')}-{info.get('profile', '')} {content.identity}"[:NAME_LENGTH]


def description(content: Content) -> str:
    """What stands under the title; ends in the digest of the content, which tells an old report."""
    return f"Replayed from {len(content.run.frame)} rows by qcbench; content {content.digest}"


def build(content: Content, figures: Sequence[str], entity: str, project: str, *, bound: bool) -> Report:
    """The report, not saved.

    `figures` are names of pictures in the folder's run ("fig10"). `bound` names entity and project in the
    panels' run sets, for which W&B's client asks the server; without it they are the report's own.
    """
    import wandb_workspaces.reports.v2 as wr

    where = {"entity": entity, "project": project} if bound else {}

    def grid(name: str, panel: str, panels: list[Any]) -> Block:
        # names of models and datasets would have to be quoted in a filter; these are hex digits
        chosen = f"Group = '{content.identity}' and Config('panel') = '{panel}'"
        return wr.PanelGrid(runsets=[wr.Runset(name=name, filters=chosen, **where)], panels=panels)

    blocks: list[Block] = [wr.TableOfContents(), wr.P(_about(content))]
    blocks += [*_headline(content), *_claims(content), wr.H2("Figures")]
    if figures:
        keys = [f"figures/{name}" for name in figures]
        media = wr.MediaBrowser(media_keys=keys, num_columns=1, layout=wr.Layout(w=24, h=16))
        blocks.append(grid("figures", FOLDER, [media]))
    blocks += [wr.H2("Quality against TTFT"), wr.P(PARETO)]
    for model, dataset in content.run.frame[PANEL].drop_duplicates().itertuples(index=False):
        blocks += [
            wr.H3([visible(f"{model}, {dataset}")]),
            grid("cells", panel_key(model, dataset), _pareto()),
        ]
    blocks += _reproduce(content)
    return wr.Report(
        project=project, entity=entity, title=title(content), description=description(content), blocks=blocks,
        width="fluid",
    )  # fmt: skip


def as_json(report: Report) -> dict[str, Any]:
    """The report as W&B stores it: title, description, entity, project, and "spec", its blocks."""
    model = report._to_model()  # the only way to it without a server; the version is pinned
    return {
        "displayName": report.title, "description": report.description,
        "entityName": report.entity, "projectName": report.project,
        "spec": model.spec.model_dump(by_alias=True, exclude_none=True, mode="json"),
    }  # fmt: skip


def _about(content: Content) -> str:
    info, frame = content.run.info, content.run.frame
    counts = ", ".join(f"{n} {status}" for status, n in frame["status"].value_counts().items())
    host = info.get("host")
    machine = (
        f" Measured on {host.get('cpu')}, {host.get('gpus') or 'no GPU'}." if isinstance(host, dict) else ""
    )
    return (
        f"{frame['cell'].nunique()} cells, {len(frame)} rows ({counts}), "
        f"{info.get('dtype', 'dtype unknown')}.{machine} {' '.join(conditions(frame, info))} "
        "Everything here is computed from the rows, which are this project's artifact."
    )


def _headline(content: Content) -> list[Block]:
    import wandb_workspaces.reports.v2 as wr

    blocks: list[Block] = [wr.H2("Headline")]
    cached = instruction_cached(content.run.info)
    points, notes = content.summary, dataset_notes(content.run.info)
    for model in content.run.frame["model"].unique():
        mine = points[points["model"] == model]
        datasets = [d for d in content.run.frame["dataset"].unique() if d in set(mine["dataset"])]
        metrics = mine.drop_duplicates("dataset").set_index("dataset")["metric"]
        lines = []
        for method in order(mine["method"].unique()):
            of_method = mine[mine["method"] == method]
            for (variant, *point), some in of_method.groupby(["variant", *AXES], dropna=False):
                by_dataset = {line["dataset"]: line for line in some.to_dict("records")}
                cells = [_cell(by_dataset.get(dataset)) for dataset in datasets]
                name = full_label(variant_label(method, str(variant)), cached)
                lines.append([name, *map(_plain, point), *cells])
        header = [
            "method",
            *("ρ" if axis == "rho" else axis for axis in AXES),
            *(f"{d} ({family(metrics[d])})" for d in datasets),
        ]
        blocks += [wr.H3([visible(str(model))]), wr.MarkdownBlock(table(header, lines))]
    blocks.append(
        wr.P(
            "Mean score [95 % interval over requests], median TTFT, speed-up of the median TTFT over full "
            "prefill [95 % interval], n requests; cut: share of answers that ran into the limit of new "
            "tokens."
        )
    )
    blocks += [wr.P(f"{dataset}: {note}") for dataset, note in notes.items()]
    if content.run.frame["predicted"].eq(True).any():
        blocks.append(wr.CalloutBlock("PREDICTED: rows of this run are a cost model's, not measured."))
    return blocks + [
        wr.CalloutBlock(f"ALARM: {text}") for text in cautions(content.run.frame, content.run.info)
    ]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return "-" if pd.isna(value) else f"{value:g}"
    return str(value)


def _cell(line: dict[Any, Any] | None) -> str:
    if line is None:
        return "-"
    if not line["n"]:
        return f"no request measured ({line['n_failed']} failed, {line['n_skipped']} skipped)"
    score = _interval(line["score"], line["score_low"], line["score_high"])
    faster = _interval(line["speedup"], line["speedup_low"], line["speedup_high"], "x")
    parts = [score, cut_text(line["at_limit"]), seconds(line["ttft_s"]), faster]
    if differs(line["rho"], line["rho_effective"]):
        parts.append(f"effective ρ {line['rho_effective']:.2f}")
    return ", ".join(filter(None, [*parts, f"n = {line['n']}"]))


def _interval(value: float, low: float, high: float, unit: str = "") -> str:
    if pd.isna(value):
        return "-"
    bounds = "" if pd.isna(low) or pd.isna(high) else f" [{low:.2f}, {high:.2f}]"
    return f"{value:.2f}{unit}{bounds}"


def _claims(content: Content) -> list[Block]:
    import wandb_workspaces.reports.v2 as wr

    blocks: list[Block] = [wr.H2("The paper's claims")]
    lines = [
        [v.id, v.section, v.claim, v.expected, v.measured, str(v.n), v.verdict, v.reason]
        for v in judge([content.run])
    ]
    header = ["id", "section", "claim", "expected", "measured", "n", "verdict", "reason"]
    return [*blocks, wr.MarkdownBlock(table(header, lines))]


def _pareto() -> list[Any]:
    import wandb_workspaces.reports.v2 as wr

    score = wr.SummaryMetric("score")
    axes = {"TTFT, median (s)": "ttft_s", "Speed-up over full prefill": "speedup"}
    return [
        wr.ScatterPlot(
            title=f"Quality against {name}", x=wr.SummaryMetric(key), y=score,
            legend_template="${config:variant} ρ = ${config:rho}",
            layout=wr.Layout(x=12 * i, y=0, w=12, h=10),
        )
        for i, (name, key) in enumerate(axes.items())
    ]  # fmt: skip


def _reproduce(content: Content) -> list[Block]:
    import wandb_workspaces.reports.v2 as wr

    info = content.run.info
    sessions = info.get("sessions")
    first = sessions[0] if isinstance(sessions, list) and sessions and isinstance(sessions[0], dict) else {}
    git = info.get("git") if isinstance(info.get("git"), dict) else {}
    assert isinstance(git, dict)
    words = first.get("command") or ["run", info.get("experiment"), "--profile", info.get("profile")]
    lines = ["make setup", f".venv/bin/qcbench {shlex.join(map(str, words))}"]
    if git.get("commit"):
        lines.insert(0, f"git checkout {git['commit']}")
    blocks: list[Block] = [wr.H2("How to reproduce"), wr.CodeBlock("\n".join(lines), language="python")]
    if git.get("dirty_sha256"):
        blocks.append(
            wr.P(f"The code differed from that commit; hash of the difference: {git['dirty_sha256']}.")
        )
    versions = info.get("versions")
    if isinstance(versions, dict):
        rows = [[str(name), str(version)] for name, version in versions.items()]
        blocks.append(wr.MarkdownBlock(table(["package", "version"], rows)))
    return blocks
