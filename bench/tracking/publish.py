"""`qcbench publish`: a finished run to W&B, and its report."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.errors import UserError
from bench.results.writer import write_json
from bench.tracking import report as reports
from bench.tracking.content import Content, read_content
from bench.tracking.figures import draw
from bench.tracking.session import PROJECT, TIMEOUT_S, client, one_line, require_key
from bench.tracking.upload import Target, upload

REPORT_FILE = "wandb-report.json"


def publish(
    run: Path, console: Console, *, project: str = PROJECT, entity: str | None = None,
    timeout: float = TIMEOUT_S,
) -> str:  # fmt: skip
    """Upload what W&B does not hold of the run, write its report, return the report's address.

    `entity` is the account's default one where it is None. A second call changes
    nothing. Raises `UserError` where the run cannot be read, no API key is at hand or the server fails.
    """
    _check_name("project", project)
    content = read_content(run)
    with client(timeout), tempfile.TemporaryDirectory() as folder:
        import wandb

        require_key()
        api = wandb.Api(timeout=max(1, round(timeout)))
        owner = entity or api.default_entity
        if not owner:
            raise UserError("W&B: the account has no default entity; give --entity")
        _check_name("entity", owner)
        figures = draw(content.run, Path(folder))
        target = Target(api, owner, project, timeout)
        done = upload(content, target, figures, console)
        console.print(
            f"{done.sent} runs sent, {done.there} were there already: {target.path}",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
        address, written = _save_report(content, target, [path.stem for path in figures])
    console.print(f"report {written}: {one_line(address)}", markup=False, highlight=False, soft_wrap=True)
    return address


def dry_run(
    run: Path, out: Path, console: Console, *, project: str = PROJECT, entity: str | None = None
) -> Path:
    """Write the report's JSON into the folder `out`, with no network at all; returns the file.

    Panels' run sets name no project there: its id is the server's to give.
    """
    _check_name("project", project)
    content = read_content(run)
    with tempfile.TemporaryDirectory() as folder:
        figures = [path.stem for path in draw(content.run, Path(folder))]
    made = reports.build(content, figures, entity or "ENTITY", project, bound=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}; choose another folder with --out") from error
    write_json(out / REPORT_FILE, reports.as_json(made))
    steps = sum(len(cell.steps) for cell in content.cells)
    console.print(
        f"nothing sent; to publish: {len(content.cells)} cells, {steps} requests, one run for the folder",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(f"report: {out / REPORT_FILE}", markup=False, highlight=False, soft_wrap=True)
    return out / REPORT_FILE


def _save_report(content: Content, target: Target, figures: Sequence[str]) -> tuple[str, str]:
    """The report's address, and whether it was "written", "written anew" or "there already"."""
    earlier = _earlier(content, target)
    made = reports.build(content, figures, target.entity, target.project, bound=True)
    if earlier is not None:
        made.id = earlier.id
        if earlier.description == made.description:
            return str(made.url), "there already"
    made.save()
    return str(made.url), "written" if earlier is None else "written anew"


def _earlier(content: Content, target: Target) -> Any:
    wanted = reports.title(content)
    found = [r for r in target.api.reports(target.path) if r.display_name == wanted]
    return found[0] if found else None


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > 128 or re.search(r"[/\\#?%:\x00-\x1f]", name):
        raise UserError(f"--{what} {ascii(name)[:80]}: W&B takes 1 to 128 characters, none of / \\ # ? % :")
