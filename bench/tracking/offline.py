"""The offline mirror: a finished run as W&B files in RUN/wandb, written without network or account."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from bench.errors import UserError
from bench.results.writer import disk_error, write_json
from bench.tracking.content import Content, read_content
from bench.tracking.figures import draw, log_folder
from bench.tracking.session import PROJECT, TIMEOUT_S, client, opened

MARKER = "qcbench.json"
"""Says that RUN/wandb is ours, and of which content."""


def mirror_offline(run: Path, console: Console, project: str = PROJECT) -> Path:
    """Write RUN/wandb anew from the rows, or leave it where it holds them already; returns the folder.

    `wandb sync RUN/wandb/offline-run-*` uploads it; `qcbench publish RUN` does that and more without it.
    Raises `UserError` where RUN/wandb is somebody else's or cannot be written.
    """
    content, out = read_content(run), run / "wandb"
    if out.exists():
        if not (out / MARKER).is_file():
            raise UserError(f"{out}: is not a mirror that qcbench wrote; move it away, or use --wandb off")
        if _marked(out) == content.digest:
            return out
    try:
        if out.exists():
            shutil.rmtree(out)
        out.mkdir()
    except OSError as error:
        raise disk_error(out, error) from error
    write_json(out / MARKER, {"content_sha256": None})
    with client(), tempfile.TemporaryDirectory() as folder:
        _write(content, draw(content.run, Path(folder)), run, project, console)
    write_json(out / MARKER, {"content_sha256": content.digest})
    return out


def _write(content: Content, figures: Sequence[Path], run: Path, project: str, console: Console) -> None:
    for mirrored in track(
        [content.folder, *content.cells], "W&B files", console=console, transient=True,
        disable=not console.is_terminal,
    ):  # fmt: skip
        with opened(
            mirrored, mode="offline", folder=run, group=content.identity, project=project, entity=None,
            timeout=TIMEOUT_S,
        ) as open_run:  # fmt: skip
            if mirrored is content.folder:
                log_folder(open_run, content, figures)


def _marked(out: Path) -> str | None:
    try:
        held = json.loads((out / MARKER).read_text("utf-8"))
    except ValueError:
        return None
    return held.get("content_sha256") if isinstance(held, dict) else None
