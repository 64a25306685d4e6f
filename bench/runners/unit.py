"""One request under all its cells: measured in random order, decoded together, one row each."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.engine.engine import Engine
from bench.errors import UserError
from bench.metrics import METRICS
from bench.metrics.conduct import is_echo, is_empty, number_precision, quotes_instruction
from bench.request import Request
from bench.results.schema import Row
from bench.results.shown import Selection, layers_of
from bench.results.timeline import Record
from bench.runners.measure import Measured, NotFinite, measure, measure_full_prefill
from bench.runners.plan import Cell
from bench.runners.prepare import Preparer
from bench.store.kernel_throttle import KernelThrottle
from bench.store.reader import Reads
from bench.store.throttle import Throttle

BATCH = 32
"""Requests decoded together, at most."""
APART = 16
"""Cells between two full prefills that show whether the machine is calm, at most."""
CALM = 0.1
"""How far full prefills around a request's cells may differ, as a share of the fastest."""
TAKES = 3
"""How often a request's cells are timed, at most."""
TIMED = (
    "ttft_s", "select_s", "select_wait_s", "load_s", "recompute_s", "first_token_s",
)  # fmt: skip
"""What a later take replaces in a row."""


@dataclass
class Bench:
    """What measuring needs, for one model and one dataset."""

    engine: Engine
    reads: Reads
    preparer: Preparer
    profiles: dict[str, list[float]]
    """A method's profile on the model, by the method's identity."""
    stop: frozenset[int]
    metric: str
    chunks: int
    chunk_tokens: int
    log: Path
    """Tracebacks of failed cells are appended here."""
    bandwidth_unit: float | None
    """Bytes a second of a relative bandwidth of 1x."""
    read_latency_s: float
    kernel: KernelThrottle | None = None
    """Slows reads in place of the token bucket."""
    timelines: list[Record] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    """Of the request run last, as are the timelines."""
    between: list[float] = field(default_factory=list)
    """TTFT of the full prefills around the cells timed last, seconds."""

    def run(self, request: Request, cells: Sequence[Cell], started: Callable[[Cell], None]) -> list[Row]:
        """One row a cell. Cells are timed again while the full prefills around them differ."""
        rows, taken = self._first(request, cells, started), 1
        while self.disturbed and taken < TAKES:
            rows, taken = self._again(request, cells, rows, started), taken + 1
        known = {"times_taken": taken, "disturbed": self.disturbed}
        return [row.model_copy(update=known) for row in rows]

    @property
    def disturbed(self) -> bool:
        """Whether full prefills around the cells timed last differ by more than `CALM`."""
        return bool(self.between) and max(self.between) > (1 + CALM) * min(self.between)

    def _look(self, request: Request) -> None:
        """A full prefill between cells: the same work each time, so what differs is the machine."""
        try:
            measured = measure_full_prefill(self.engine, request)
        except (torch.OutOfMemoryError, NotFinite):  # full prefill's own cell says so
            return
        self.engine.runtime.release(measured.first.slots)
        self.between.append(measured.row["ttft_s"])

    def _again(
        self, request: Request, cells: Sequence[Cell], rows: list[Row], started: Callable[[Cell], None]
    ) -> list[Row]:
        """Time the cells once more; answers and selections stay."""
        of = {row.cell: row for row in rows}
        lines = {record.cell: record for record in self.timelines}
        gc.collect()
        self.engine.runtime.clear()
        self.between = []
        for number, cell in enumerate(cells):
            if number % APART == 0:
                self._look(request)
            if of[cell.key].status != "ok":
                continue
            started(cell)
            outcome = self._measure(request, cell)
            if isinstance(outcome, Measured):
                of[cell.key] = of[cell.key].model_copy(update={name: outcome.row[name] for name in TIMED})
                lines[cell.key] = lines[cell.key].model_copy(update={"timeline": outcome.timeline})
            else:
                of[cell.key] = outcome
            self.engine.runtime.clear()
        self._look(request)
        self.engine.runtime.clear()
        self.timelines = list(lines.values())
        return [of[row.cell] for row in rows]

    def _first(self, request: Request, cells: Sequence[Cell], started: Callable[[Cell], None]) -> list[Row]:
        """Measure every cell alone, then decode the requests still in the pool as one batch."""
        self.preparer.intact(partial(self.preparer.caches, request))
        gc.collect()  # here once; inside the clock it is off
        runtime = self.engine.runtime
        runtime.clear()
        self.timelines, self.selections, self.between = [], [], []
        rows: list[Row] = []
        running: list[tuple[Cell, Measured]] = []
        need = len(request.ids) + request.max_new_tokens
        room = min(BATCH, max(1, runtime.pool_tokens // need))
        for number, cell in enumerate(cells):
            if len(running) == room:
                rows += self._decode(request, running)
                running = []
            if number % APART == 0 and (len(running) + 1) * need <= runtime.pool_tokens:
                self._look(request)
            started(cell)
            outcome = self._measure(request, cell)
            if isinstance(outcome, Measured):
                running.append((cell, outcome))
            else:
                rows.append(outcome)
        if (len(running) + 1) * need <= runtime.pool_tokens:
            self._look(request)
            return rows + self._decode(request, running)
        rows += self._decode(request, running)
        self._look(request)
        runtime.clear()
        return rows

    def warm(self, request: Request, cells: Sequence[Cell]) -> None:
        """Measure and forget. No answer is decoded: decoding is on no clock."""
        self.preparer.intact(partial(self.preparer.caches, request))
        for cell in cells:
            self.engine.runtime.clear()
            self._measure(request, cell)
        self.engine.runtime.clear()

    def _measure(self, request: Request, cell: Cell) -> Measured | Row:
        """Measure, rebuilding what the store finds damaged; a failed cell becomes a row."""
        try:
            why = cell.method.method.skip(request)
            if why is not None:
                return self._row(request, cell, status="skipped", error=why)
            return self.preparer.intact(partial(self._once, request, cell))
        except UserError:  # a full disk, say: nothing of the method's, and measured again on resuming
            raise
        except Exception as error:  # a cell may fail, the run goes on
            return self._failed(request, cell, error)

    def _failed(self, request: Request, cell: Cell, error: Exception) -> Row:
        """The row of a cell that raised; the traceback is kept."""
        if isinstance(error, torch.OutOfMemoryError):
            return self._row(request, cell, status="oom", error=str(error).splitlines()[0])
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%F %T')} {cell.method.name} rho={cell.rho} {request.id}\n")
            log.write("".join(traceback.format_exception(error)) + "\n")
        return self._row(request, cell, status="failed", error=f"{type(error).__name__}: {error}")

    def _once(self, request: Request, cell: Cell) -> Measured:
        cached = self.preparer.caches(request, cell.method)
        profile, rate = (
            self.profiles.get(cell.method.identity, []),
            cell.bandwidth.resolve(self.bandwidth_unit),
        )
        throttle = None if rate is None or self.kernel else Throttle(rate, self.read_latency_s)
        method = cell.method.method
        if self.kernel is not None:
            self.kernel.limit(rate)
            self.reads.kernel_slows = rate is not None
        try:
            return measure(self.engine, self.reads, request, method, cell.rho, cached, profile, throttle)
        finally:
            if self.kernel is not None:
                self.kernel.limit(None)

    def _decode(self, request: Request, running: list[tuple[Cell, Measured]]) -> list[Row]:
        """Greedy decoding to the end of the answer; frees the pool. Where it fails, so do its cells."""
        if not running:
            return []
        firsts = [measured.first for _, measured in running]
        try:
            out = self.engine.runtime.decode(
                [f.slots for f in firsts], [f.token for f in firsts], self.stop, request.max_new_tokens
            )
        except Exception as error:  # out of memory, say: other requests may fit
            return [self._failed(request, cell, error) for cell, _ in running]
        finally:
            self.engine.runtime.clear()
        rows = []
        texts = (request.ids, request.prefix, request.ids[len(request.prefix) :])
        prompt, instruction, rest = (
            self.preparer.tokenizer.decode(ids, skip_special_tokens=True) for ids in texts
        )
        for (cell, measured), ids in zip(running, out, strict=True):
            which = self._which(request, cell)
            self.timelines.append(Record(**which, timeline=measured.timeline))
            self.selections.append(Selection(**which, layers=layers_of(measured.positions)))
            prediction = self.preparer.tokenizer.decode(ids, skip_special_tokens=True)
            score = METRICS[self.metric].score(prediction, request.references)
            rows.append(
                self._row(
                    request,
                    cell,
                    prediction=prediction,
                    score=score,
                    new_tokens=len(ids),
                    stopped="limit" if len(ids) == request.max_new_tokens else "eos",
                    precision=number_precision(prediction, request.references),
                    quotes_instruction=quotes_instruction(prediction, instruction, rest, request.references),
                    empty=is_empty(prediction),
                    echo=is_echo(prediction, prompt),
                    **measured.row,
                )
            )
        return rows

    def _which(self, request: Request, cell: Cell) -> dict[str, Any]:
        return {
            "cell": cell.key, "model": cell.model, "dataset": cell.dataset, "method": cell.method.name,
            "params": cell.method.params, "rho": cell.rho, "bandwidth": cell.bandwidth.text,
            "request": request.id,
        }  # fmt: skip

    def _row(self, request: Request, cell: Cell, **fields: Any) -> Row:
        rate = cell.bandwidth.resolve(self.bandwidth_unit)
        return Row(
            **self._which(request, cell), bandwidth_bytes_per_s=rate, bandwidth_unit=self.bandwidth_unit,
            chunks=self.chunks, chunk_tokens=self.chunk_tokens,
            context_tokens=request.context_tokens, request_sha256=request.sha256,
            metric=self.metric, references=list(request.references), **fields,
        )  # fmt: skip
