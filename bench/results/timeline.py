"""A request's timeline as measured: what ran when, from arrival to the first token (QCFuse, Fig. 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from bench.engine.engine import FirstToken
from bench.store.reader import Load

TIMELINES = "timelines.jsonl"


class LoadSpan(BaseModel):
    """A read: layers first..last of one entry, for selection or for fusion, by one thread."""

    model_config = ConfigDict(extra="forbid")

    stage: str
    first: int
    last: int
    parts: tuple[str, ...]
    bytes: int
    thread: str
    began: float
    ended: float


class LayerSpan(BaseModel):
    """A layer's recomputation, with its wait for the layer's cache."""

    model_config = ConfigDict(extra="forbid")

    began: float
    wait_began: float
    wait_ended: float
    ended: float


class Timeline(BaseModel):
    """Times in seconds since the request's arrival. Selection runs from 0 to `selected`, the output head
    and the choice of the token from `head_began` to `ended`."""

    model_config = ConfigDict(extra="forbid")

    selected: float
    head_began: float
    ended: float
    layers: list[LayerSpan]
    loads: list[LoadSpan]


class Record(BaseModel):
    """A line of `timelines.jsonl`: the row it belongs to, and its timeline."""

    model_config = ConfigDict(extra="forbid")

    cell: str
    model: str
    dataset: str
    method: str
    params: dict[str, Any] = {}
    rho: float
    bandwidth: str = "none"
    request: str
    timeline: Timeline


def timeline_of(began: float, selected: float, first: FirstToken, loads: Sequence[Load]) -> Timeline:
    """From stamps of `time.perf_counter()`; rounded to microseconds."""

    def at(stamp: float) -> float:
        return round(stamp - began, 6)

    return Timeline(
        selected=at(selected), head_began=at(first.head_began), ended=at(first.ended),
        layers=[
            LayerSpan(**{name: at(stamp) for name, stamp in vars(layer).items()}) for layer in first.layers
        ],
        loads=[
            LoadSpan(**vars(load) | {"began": at(load.began), "ended": at(load.ended)})
            for load in sorted(loads, key=lambda load: load.began)
        ],
    )  # fmt: skip
