"""Writes what `qcbench report` and the end of `qcbench run` leave: figures, tables, index.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.assets.cache import write_atomically
from bench.claims import judge
from bench.reports.page import render
from bench.reports.run_view import RunView
from bench.results.report import open_run, write_figures
from bench.results.run_folder import RunFolder
from bench.results.writer import disk_error


def write_report(runs: Sequence[Path], out: Path, console: Console) -> Path:
    """Write the figures of each run and one `index.html` about all of them; returns its path.

    Figures and tables lie in `out` where there is one run, else in a folder of `out` for each. Reads the
    runs' folders only. Raises `UserError` where a run has no rows or cannot be read, or `out` not be written.
    """
    places = {path.resolve(): path for path in runs}
    return write_page([open_run(path) for path in places.values()], out, console)


def write_page(
    folders: Sequence[RunFolder], out: Path, console: Console, opening: dict[str, Any] | None = None
) -> Path:
    """As `write_report`, of runs that were read. The page opens with `opening` (`bench.compare.section`), if
    there is one, in place of the claims: those are on the finished run's own page."""
    names = _names([folder.path.resolve() for folder in folders])
    targets = [out if len(names) == 1 else out / name for name in names]
    try:
        for target in targets:
            target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(out, error) from error
    views = [
        RunView(folder, name, write_figures(folder, target, console))
        for folder, name, target in zip(folders, names, targets, strict=True)
    ]
    verdicts = judge(folders) if opening is None else []
    page, text = out / "index.html", render(views, verdicts, out, opening)
    try:
        write_atomically(page, text)
    except OSError as error:
        raise disk_error(page, error) from error
    return page


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' own names, numbered where two are the same."""
    names: list[str] = []
    for path in paths:
        name, number = path.name, 2
        while name in names:
            name, number = f"{path.name}-{number}", number + 1
        names.append(name)
    return names
