"""The run for the folder: figures as images, tables, and rows with run.json as an artifact."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from bench.results.reader import rows_file
from bench.results.report import write_figures
from bench.results.run_folder import RunFolder
from bench.tracking.content import Content

if TYPE_CHECKING:
    import wandb

TABLE_ROWS = [
    "cell", "model", "dataset", "method", "rho", "bandwidth", "request", "metric", "score", "ttft_s",
    "prediction", "references", "status", "error",
]  # fmt: skip


def draw(run: RunFolder, out: Path) -> list[Path]:
    """The run's figures, drawn into `out`: its PNG files, in the order of its report."""
    return [path for path in write_figures(run, out, Console(file=io.StringIO())) if path.suffix == ".png"]


def log_folder(run: wandb.Run, content: Content, figures: Iterable[Path]) -> None:
    """Log figures ("figures/NAME"), the tables "summary" and "rows", and the artifact of the rows."""
    import wandb

    items: dict[str, Any] = {f"figures/{path.stem}": wandb.Image(str(path)) for path in figures}
    items |= {"summary": _table(content.summary), "rows": _table(content.run.frame[TABLE_ROWS])}
    run.log(items)
    artifact = wandb.Artifact(
        f"rows-{content.identity}", type="rows", metadata={"identity": content.identity}
    )
    for file in (rows_file(content.run.path), content.run.path / "run.json"):
        artifact.add_file(str(file))
    run.log_artifact(artifact)


def _table(frame: pd.DataFrame) -> wandb.Table:
    import wandb

    plain = frame.astype(object).where(frame.notna(), None)
    rows: list[Iterable[Any]] = [
        [", ".join(v) if isinstance(v, list) else v for v in line] for line in plain.itertuples(index=False)
    ]
    return wandb.Table(columns=list(frame.columns), data=rows, allow_mixed_types=True)
