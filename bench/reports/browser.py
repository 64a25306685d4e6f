"""Data of the request browser: prompts, what each method recomputed of them, answers, stages, timelines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import pandas as pd

from bench.figures.style import order, styles
from bench.reports.run_view import RunView
from bench.reports.text import visible
from bench.results.points import PANEL, PARTS, POINT, PREFILLS, WAITS, dataset_notes
from bench.results.recorded import timelines_of
from bench.results.shown import Prompt, Selection, read_prompts, read_selections
from bench.results.timeline import LoadSpan, Record, Timeline

BUDGET = 2_500_000
"""Characters of JSON the browser may take of the page; requests that would pass it are left out."""
WITHOUT_PROMPT = 3
"""Requests of a model and dataset that are shown where a run kept no prompts: answers and stages alone."""

Key = tuple[str, str, str]
"""Model, dataset, request."""
CellKey = tuple[str, str, str, str]
"""The cell's key, then `Key`."""


def browser(runs: Sequence[RunView]) -> dict[str, Any]:
    """{"requests": [...], "left_out": how many did not fit into `BUDGET`}.

    A request: {run, model, dataset, request, metric, note, references, prompt, cells}, prompt being None
    where the run kept none, else {instruction, context, query, chunk_starts, evidence}. A cell: {method,
    label, colour, rho, bandwidth, status, error, prediction, score, times, layers, timeline}: times in
    seconds, layers as in `selections.jsonl`. Every text went through `visible`.
    """
    sources = [_Source(run) for run in runs]
    kept: list[tuple[int, int, dict[str, Any]]] = []
    size = left_out = 0
    # the first request of every model and dataset before the second of any
    by_panel = [(number, source, keys) for number, source in enumerate(sources) for keys in source.panels()]
    for turn in zip_longest(*([(n, s, key) for key in keys] for n, s, keys in by_panel)):
        for place, one in enumerate(turn):
            if one is None:
                continue
            request = one[1].request(one[2])
            length = len(json.dumps(request, ensure_ascii=False))
            if size + length > BUDGET:
                left_out += 1
                continue
            size += length
            kept.append((one[0], place, request))
    kept.sort(key=lambda item: item[:2])
    return {"requests": [request for _, _, request in kept], "left_out": left_out}


class _Source:
    """A run's files by request. Requests of which no row is left (another run's, say) are not shown."""

    def __init__(self, run: RunView) -> None:
        self.run = run
        self.prompts: dict[Key, Prompt] = {}
        self.selections: dict[CellKey, Selection] = {}
        self.timelines: dict[CellKey, Record] = {}
        for folder in (run.folder.path, *run.folder.also):
            self.prompts |= {(p.model, p.dataset, p.request): p for p in read_prompts(folder)}
            self.selections |= {_cell_key(s): s for s in read_selections(folder)}
            self.timelines |= {_cell_key(r): r for r in timelines_of(folder)}
        self.notes = dataset_notes(run.info)
        self.look = styles(run.frame["method"].unique())
        rows = run.frame.groupby([*PANEL, "request"], sort=False)
        self.rows: dict[Key, pd.DataFrame] = {
            (str(key[0]), str(key[1]), str(key[2])): some for key, some in rows
        }

    def panels(self) -> Iterable[list[Key]]:
        """The requests to show, a list for each model and dataset: those with prompts first, else a few."""
        found: dict[tuple[str, str], list[Key]] = {}
        for key in self.rows:
            found.setdefault(key[:2], []).append(key)
        prompted = {panel: [key for key in keys if key in self.prompts] for panel, keys in found.items()}
        shown = sorted(found, key=lambda panel: not prompted[panel])
        return [prompted[panel] or found[panel][:WITHOUT_PROMPT] for panel in shown]

    def request(self, key: Key) -> dict[str, Any]:
        """One request as the page's script takes it."""
        rows, prompt = self.rows[key].drop_duplicates(POINT, keep="last"), self.prompts.get(key)
        ranks = {name: rank for rank, name in enumerate(order(rows["method"].unique()))}
        lines = sorted(
            rows.to_dict("records"), key=lambda one: (ranks[str(one["method"])], one["params"], one["rho"])
        )
        references = lines[0]["references"] if prompt is None else prompt.references
        return {
            "run": visible(self.run.name), "model": visible(key[0]), "dataset": visible(key[1]),
            "request": visible(key[2]), "metric": visible(lines[0]["metric"]),
            "note": visible(self.notes.get(key[1], "")), "predicted": self.run.predicted,
            "references": [visible(text) for text in references],
            "prompt": None if prompt is None else _prompt(prompt),
            "cells": [self._cell(line, key) for line in lines],
        }  # fmt: skip

    def _cell(self, line: dict[Any, Any], key: Key) -> dict[str, Any]:
        method, at = str(line["method"]), (str(line["cell"]), *key)
        selection, record = self.selections.get(at), self.timelines.get(at)
        return {
            "method": visible(method), "label": visible(self.run.labels[method, line["params"]]),
            "colour": self.look[method].colour, "rho": line["rho"],
            "bandwidth": None if method in PREFILLS else str(line["bandwidth"]),
            "status": line["status"],
            "error": _first_line(line["error"]),
            "prediction": None if pd.isna(line["prediction"]) else visible(line["prediction"]),
            "score": _number(line["score"]),
            "times": {name: _number(line[name]) for name in ("ttft_s", *PARTS, *WAITS)},
            "layers": None if selection is None else [
                [one.first, one.last, one.positions] for one in selection.layers
            ],
            "timeline": None if record is None else _timeline(record.timeline),
        }  # fmt: skip


def _cell_key(one: Selection | Record) -> CellKey:
    return one.cell, one.model, one.dataset, one.request


def _prompt(prompt: Prompt) -> dict[str, Any]:
    return {
        "instruction": visible("".join(prompt.instruction)), "query": visible("".join(prompt.query)),
        "context": [visible(text) for text in prompt.context],
        "chunk_starts": prompt.chunk_starts, "evidence": prompt.evidence,
    }  # fmt: skip


def _timeline(timeline: Timeline) -> dict[str, Any]:
    """Milliseconds: [began, wait began, wait ended, ended] of each layer, [began, ended] of each stretch in
    which some thread read for selection, for fusion."""
    return {
        "selected": _ms(timeline.selected), "head": _ms(timeline.head_began), "ended": _ms(timeline.ended),
        "layers": [
            [_ms(at) for at in (one.began, one.wait_began, one.wait_ended, one.ended)]
            for one in timeline.layers
        ],
        "reads": {stage: _reads(timeline.loads, stage) for stage in ("select", "fuse")},
    }  # fmt: skip


def _reads(loads: Sequence[LoadSpan], stage: str) -> list[list[float]]:
    """The union of the reads' spans: threads that read at once are one stretch."""
    found: list[list[float]] = []
    for load in sorted((load for load in loads if load.stage == stage), key=lambda load: load.began):
        if found and load.began <= found[-1][1]:
            found[-1][1] = max(found[-1][1], load.ended)
        else:
            found.append([load.began, load.ended])
    return [[_ms(began), _ms(ended)] for began, ended in found]


def _first_line(text: Any) -> str:
    return "" if pd.isna(text) else visible((str(text).splitlines() or [""])[0])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


def _number(value: float | None) -> float | None:
    return None if value is None or pd.isna(value) else float(f"{value:.5g}")
