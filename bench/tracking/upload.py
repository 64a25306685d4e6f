"""Uploads what a W&B project does not hold yet of a run's content."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.errors import UserError
from bench.tracking.content import DIGEST, ROWS_DIGEST, Content, Mirrored
from bench.tracking.figures import log_folder
from bench.tracking.session import RESUME, opened

ASKED = 100
"""Runs asked for at once."""


@dataclass(frozen=True)
class Target:
    """Where to: a project of an entity, and how many seconds the server has for an answer."""

    api: Any
    entity: str
    project: str
    timeout: float

    @property
    def path(self) -> str:
        """ "ENTITY/PROJECT", as W&B's API wants it."""
        return f"{self.entity}/{self.project}"

    def has_project(self) -> bool:
        """Whether the project is there; it is made with its first run."""
        return any(project.name == self.project for project in self.api.projects(self.entity))


@dataclass(frozen=True)
class Uploaded:
    """How many runs were sent, and how many were there already with the same content."""

    sent: int
    there: int


def upload(content: Content, target: Target, figures: Sequence[Path], console: Console) -> Uploaded:
    """Upload the runs of `content` that the project does not hold whole and with the same digest.

    The first run sent is looked up before others follow, and
    all are at the end: the client drops what a server refuses without an error.

    A run that is there in part gets what it lacks. Raises `UserError` where the project holds one of the
    cells from another run folder or with other rows, or where the server did not take what was sent.
    """
    everything = [*content.cells, content.folder]
    there = _there(everything, content, target) if target.has_project() else {}
    todo = [mirrored for mirrored in everything if not there.get(mirrored.id)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True) as progress,
        tempfile.TemporaryDirectory() as folder,
    ):
        task = progress.add_task("W&B runs", total=len(everything), completed=len(everything) - len(todo))
        for number, mirrored in enumerate(todo):
            with opened(
                mirrored, mode="online", folder=folder, group=content.identity, project=target.project,
                entity=target.entity, timeout=target.timeout, resume=mirrored.id in there,
            ) as run:  # fmt: skip
                if mirrored is content.folder:
                    log_folder(run, content, figures)
            if number == 0:
                _wait_for([mirrored], content, target)
            progress.advance(task)
        _wait_for(todo, content, target)
    return Uploaded(len(todo), len(everything) - len(todo))


def _there(wanted: Sequence[Mirrored], content: Content, target: Target) -> dict[str, bool]:
    """The runs of `wanted` that the project holds, by id: whether each is whole and as it is wanted."""
    by_id = {mirrored.id: mirrored for mirrored in wanted}
    ids, there = list(by_id), {}
    target.api.flush()  # it answers from its cache otherwise
    for start in range(0, len(ids), ASKED):
        some = {"name": {"$in": ids[start : start + ASKED]}}
        for run in target.api.runs(target.path, some, per_page=ASKED, lazy=False):
            mirrored = by_id[run.id]
            if run.group != content.identity:
                raise _refused(run.id, target, "from another run folder")
            there[run.id] = run.state == "finished" and run.summary.get(DIGEST) == mirrored.digest
            if not there[run.id] and run.config.get(ROWS_DIGEST) != mirrored.rows_digest:
                raise _refused(run.id, target, "with other rows, and W&B keeps a history that it was sent")
    return there


def _refused(cell: str, target: Target, why: str) -> UserError:
    return UserError(f"W&B: {target.path} holds cell {cell} {why}; give another --project")


def _wait_for(sent: Sequence[Mirrored], content: Content, target: Target) -> None:
    """Wait until the server shows all of them: it works through what it took in its own time."""
    until = time.monotonic() + target.timeout
    pause = 0.1
    while missing := _missing(sent, content, target):
        if time.monotonic() > until:
            raise UserError(f"W&B: the server took {len(sent) - len(missing)} of {len(sent)} runs. {RESUME}")
        time.sleep(pause)
        pause = min(2.0, pause * 2)


def _missing(sent: Sequence[Mirrored], content: Content, target: Target) -> list[str]:
    there = _there(sent, content, target)
    return [mirrored.id for mirrored in sent if not there.get(mirrored.id)]
