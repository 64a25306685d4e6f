"""Measures a method, and full prefill beside it, on the requests of a finished run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rich.console import Console

from bench.compare.beside import put_beside
from bench.compare.section import section
from bench.compare.show import show
from bench.compare.standing import standing
from bench.errors import UserError
from bench.experiments import Sweep, resolve
from bench.methods import NamedMethod, method_of
from bench.reports.write import write_page
from bench.results.packed import kept
from bench.results.points import FULL_PREFILL, PANEL
from bench.results.reader import ROWS, read_rows, read_run_info
from bench.results.report import open_run
from bench.results.run_folder import RunFolder
from bench.runners.run import run


def compare(
    spec: str, base: Path, experiment: str, profile: str, out: Path | None, console: Console,
    fresh: bool = False,
) -> int:  # fmt: skip
    """Finish the run `base` where it is not, measure the method, print and write where it stands.

    Only the method's own cells and full prefill's are measured; all other rows are those of `base`. They lie
    in a folder for each version of the method, its parameters and the run; `fresh` measures them again.
    Returns 1 where rows of the method failed. Raises `UserError` for a method that cannot be loaded or has
    the name of another one, or was not measured at all, and for a run that is of another configuration.
    """
    method = method_of(spec)
    finished = _finished(base, experiment, profile, console)
    _require_new(method, finished)
    sweep = _sweep(finished, spec)
    version = hashlib.sha256(f"{finished.info.get('identity')}:{method.identity}".encode()).hexdigest()[:8]
    own = base.parent / f"compare-{method.name}" / f"{base.name}-{version}"
    failed = run(sweep, own, console, fresh=fresh)
    beside = put_beside(finished, open_run(own), method.name)
    stands = standing(beside)
    folder = out or Path("reports") / f"compare-{method.name}{f'-{version}' if method.params else ''}"
    page = write_page([beside.run], folder, console, section(beside, stands))
    show(beside, stands, console)
    if failed:
        console.print(f"{failed} rows failed; tracebacks in {own}/errors.log", markup=False)
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _finished(base: Path, experiment: str, profile: str, console: Console) -> RunFolder:
    """The run to compare with: read if it is whole, else made or gone on with."""
    if _is_whole(base):
        return open_run(base)
    console.print(f"{base} is not finished: measuring what it lacks first", markup=False, highlight=False)
    run(resolve(experiment, profile), base, console)
    return open_run(base)


def _is_whole(base: Path) -> bool:
    sweep = read_run_info(base).get("sweep")
    if not isinstance(sweep, dict) or kept(base / ROWS) is None:
        return False
    rows = read_rows(base)
    wanted = len(sweep["models"]) * len(sweep["datasets"]) * sweep["requests"]
    return bool(len(rows.drop_duplicates([*PANEL, "request"])) >= wanted)


def _require_new(method: NamedMethod, finished: RunFolder) -> None:
    there = finished.frame[finished.frame["method"] == method.name]
    if len(there):
        raise UserError(
            f"{finished.path} has rows of a method called {method.name!r} already; "
            "give your file another name, or another --run"
        )


def _sweep(finished: RunFolder, spec: str) -> Sweep:
    """The finished run's configuration with the method and full prefill alone."""
    known = {name: value for name, value in finished.info["sweep"].items() if name in Sweep.model_fields}
    return Sweep.model_validate(known | {"methods": [FULL_PREFILL, spec], "dtype": finished.info["dtype"]})
