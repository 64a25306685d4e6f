"""The timeline of a request as picture and trace: the report of fig09, and the command `timeline`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.figures import timeline
from bench.results.conditions import distrust
from bench.results.reader import read_run_info
from bench.results.recorded import Wanted, choose, read_timelines, title
from bench.results.report_stages import write_stages
from bench.results.run_folder import RunFolder
from bench.results.trace import write_trace
from bench.results.writer import disk_error


def write(run: RunFolder, out: Path, console: Console) -> list[Path]:
    """Write the first recorded request's timeline (fig09: png, svg, trace), stages.csv and summary.csv."""
    _, tables = write_stages(run, out, console)
    return [*write_timeline(run.path, Wanted(), out, console, "fig09"), *tables]


def write_timeline(run: Path, wanted: Wanted, out: Path, console: Console, name: str = "") -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.trace.json into `out`, NAME being "timeline-" and the request's id.

    Raises `UserError` where the run has no such timeline, or `out` cannot be made.
    """
    records = choose(read_timelines(run), wanted)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(out, error) from error
    name = name or f"timeline-{records[0].request.replace('/', '-')}"
    paths = [
        *timeline.plot(records, out, name, distrust(read_run_info(run))),
        write_trace(records, out / f"{name}.trace.json"),
    ]
    console.print(
        f"{title(records)}: {paths[0]}, {paths[-1]} (open it at ui.perfetto.dev)",
        markup=False,
        soft_wrap=True,
    )
    return paths
