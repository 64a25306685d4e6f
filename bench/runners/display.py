"""The live table of a run: done, running, skipped, failed, and the remaining time."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from bench.results.schema import Row
from bench.runners.plan import Cell


class Display:
    """A table that lives on a terminal; elsewhere one line a request."""

    def __init__(self, console: Console, totals: dict[str, int], requests: int) -> None:
        """`totals` is the number of rows planned for each method, `requests` of requests to measure."""
        self.console, self.totals, self.requests = console, totals, requests
        self.counts: dict[str, Counter[str]] = {method: Counter() for method in totals}
        self.running, self.where, self.finished = "", "", 0
        self._began = time.monotonic()
        self._live = Live(get_renderable=self._table, console=console, auto_refresh=False, transient=True)
        # No refreshing thread: it would run beside what is measured.

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """Print a line above the table."""
        self.console.print(text, highlight=False, markup=False)  # names of datasets may have brackets

    def start(self, cell: Cell | None, where: str | None = None) -> None:
        """A cell begins, or (None) something that is no cell; `where` stays as it was if not given."""
        self.running = "" if cell is None else cell.method.name
        self.where = where or self.where
        self._live.refresh()

    def reuse(self, rows: list[Row]) -> None:
        """Rows that an earlier run of the same command wrote."""
        for row in rows:
            self.counts[row.method]["done" if row.status == "ok" else row.status] += 1

    def finish(self, rows: list[Row], label: str) -> None:
        """A request is done and written."""
        self.reuse(rows)
        self.finished += 1
        self.running = ""
        self._live.refresh()
        if not self.console.is_terminal:
            bad = sum(row.status != "ok" for row in rows)
            trouble = f", {bad} not ok" if bad else ""
            self.note(f"{self.finished}/{self.requests} {label}{trouble}, {self.remaining()} left")

    def remaining(self) -> str:
        """The remaining time, from the pace so far."""
        if not self.finished:
            return "?"
        pace = (time.monotonic() - self._began) / self.finished
        seconds = round(pace * (self.requests - self.finished))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _table(self) -> Table:
        caption = escape(f"{self.where}   {self.remaining()} left")
        table = Table("method", "done", "of", "running", "skipped", "failed", caption=caption)
        for method, total in self.totals.items():
            count = self.counts[method]
            failed = count["failed"] + count["oom"]
            table.add_row(
                escape(method), str(count["done"]), str(total), "x" if method == self.running else "",
                str(count["skipped"] or ""), f"[red]{failed}[/red]" if failed else "",
            )  # fmt: skip
        return table
