"""Renders the page: jinja2 templates around what the other modules compute."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench import __version__
from bench.claims.family import family_line
from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    PARTLY,
    PARTLY_NOT,
    REPRODUCED,
    TOO_FEW,
    UNJUDGED,
    Verdict,
)
from bench.figures.style import STAGES
from bench.reports.browser import browser
from bench.reports.embed import json_block, policy
from bench.reports.figures import figures, link
from bench.reports.pareto import pareto
from bench.reports.provenance import provenance
from bench.reports.remarks import remarks
from bench.reports.run_view import RunView
from bench.reports.tables import headlines, points
from bench.reports.text import visible
from bench.results.conditions import conditions
from bench.results.reader import rows_file

SCRIPTS = ("dom.js", "pareto.js", "tokens.js", "stages.js", "requests.js")
MARKS = {
    REPRODUCED: "✓", PARTLY: "◐", NOT_REPRODUCED: "✗", PARTLY_NOT: "◑", INCONCLUSIVE: "≈", TOO_FEW: "◌",
    NOT_TESTABLE: "○", NO_DATA: "–",
}  # fmt: skip
"""A sign for each verdict, so that colour alone says nothing."""


def render(
    runs: Sequence[RunView], verdicts: Sequence[Verdict], out: Path, mine: dict[str, Any] | None = None
) -> str:
    """The page of these runs as HTML text, for a file in the folder `out` (its links are relative to it).

    `mine` is a compared method's section (`bench.compare.section`).
    """
    style, script = _static("page.css"), "\n".join(map(_static, SCRIPTS))
    requests = browser(runs)
    data = {"pareto": pareto(runs), "requests": requests["requests"], "stages": STAGES}
    environment = Environment(
        loader=PackageLoader("bench.reports"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    sections = [
        {
            "name": run.name, "experiment": run.info.get("experiment", "unknown experiment"),
            "profile": run.info.get("profile"), "commands": run.commands, "predicted": run.predicted,
            "remarks": remarks(run),
            "conditions": conditions(run.frame, run.info), "headlines": headlines(run), "points": points(run),
            "figures": figures(run), "facts": provenance(run), "rows": _rows(run, out),
            "files": [(path.name, link(path, out)) for path in run.files],
            "without_prompts": sorted({
                r["dataset"] for r in data["requests"] if r["run"] == visible(run.name) and not r["prompt"]
            }),
        }
        for run in runs
    ]  # fmt: skip
    return environment.get_template("index.html.j2").render(
        title=f"{', '.join(run.name for run in runs)}: KV-cache fusion, quality against TTFT",
        policy=policy(style, script),
        style=Markup(style),  # our own files, as are the scripts
        script=Markup(script),
        data=json_block(data), runs=sections, mine=mine, verdicts=verdicts, marks=MARKS,
        unjudged=UNJUDGED, family=family_line(verdicts), left_out=requests["left_out"],
        counts={name: sum(one.verdict == name for one in verdicts) for name in MARKS}, version=__version__,
        rows_sha256=[hashlib.sha256(rows_file(run.folder.path).read_bytes()).hexdigest() for run in runs],
    )  # fmt: skip


def _static(name: str) -> str:
    return (files("bench.reports") / "static" / name).read_text("utf-8")


def _shown(value: Any) -> Any:
    """What every {{ }} goes through before it is escaped."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def _rows(run: RunView, out: Path) -> tuple[str, str]:
    path = rows_file(run.folder.path)
    return f"{run.name}/{path.name}", link(path, out)
