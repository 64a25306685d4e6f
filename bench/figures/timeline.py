"""Fig. 9 as measured: what ran when for one request, one block of tracks for each method."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.figures.panels import RED, WARNING, save
from bench.figures.style import STAGES, WAITING, theme
from bench.results.points import FULL_PREFILL
from bench.results.recorded import labels, title
from bench.results.timeline import Record, Timeline
from bench.results.trace import threads

LANE = 0.5
"""Height of a reading thread's lane; a track of its own has 1."""
BETWEEN = 1.15
"""Between two blocks."""
HATCH = "//////"
SMALL, TEXT = 6.5, 8.0
END: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": (0, (4, 2))}
"""The line at full prefill's end."""
Span = tuple[float, float]
"""Begin and width, in ms."""


def plot(records: Sequence[Record], out_dir: Path, name: str, doubts: Sequence[str] = ()) -> list[Path]:
    """Write `name`.png and `name`.svg into `out_dir`; returns their paths. `doubts` as in `draw`."""
    with mpl.rc_context():
        theme()
        mpl.rcParams["hatch.linewidth"] = 0.6
        return save(draw(records, doubts), out_dir, name)


def draw(records: Sequence[Record], doubts: Sequence[str] = ()) -> Figure:
    """Draw the blocks one under the other over one time axis in ms since the request's arrival.

    Tracks: select; load, a lane a reading thread; compute, with layers in alternating shades and white,
    hatched waits for a layer's cache; first token. `doubts` about the run stand below, a line each, in red.
    """
    red = [line for text in doubts for line in textwrap.wrap(f"{WARNING}{text}.", 150)]
    below = 0.13 * len(red)
    heights = [_height(record.timeline) for record in records]
    total = sum(heights) + BETWEEN * len(records)
    inches = 1.15 + 0.2 * total + below
    figure = Figure(figsize=(9.0, inches), layout="constrained")
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(rect=(0, below / inches, 1, 1 - (0.62 + below) / inches))
    text = figure.text(0.01, 0.04 / inches, "\n".join(red), fontsize=SMALL, va="bottom", color=RED)
    text.set_in_layout(False)
    ax = figure.subplots()
    end = max(record.timeline.ended for record in records) * 1e3
    top = 0.0
    tracks: list[tuple[float, str]] = []
    for record, name, height in zip(records, labels(records), heights, strict=True):
        tracks += _block(ax, record, name, top, end)
        top += height + BETWEEN
    for record in records:
        if record.method == FULL_PREFILL and len(records) > 1:
            ax.axvline(record.timeline.ended * 1e3, **END, zorder=1)
    ax.set_xlim(0, end * 1.1)
    ax.set_ylim(top - BETWEEN + 0.2, -BETWEEN)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_yticks([at for at, _ in tracks], [text for _, text in tracks], fontsize=SMALL)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("Time since the request's arrival (ms)", fontsize=TEXT)
    figure.text(0.01, 1 - 0.08 / inches, title(records), fontsize=TEXT, fontweight="bold", va="top")
    handles = _legend(any(record.method == FULL_PREFILL for record in records) and len(records) > 1)
    legend = figure.legend(
        handles=handles, ncols=len(handles), loc="upper left", bbox_to_anchor=(0.003, 1 - 0.29 / inches),
        frameon=False, fontsize=SMALL, handlelength=1.5, columnspacing=1.1, handletextpad=0.5,
        borderaxespad=0.0,
    )  # fmt: skip
    legend.set_in_layout(False)
    return figure


def _height(timeline: Timeline) -> float:
    return 2 + bool(timeline.selected) + LANE * len(threads(timeline))


def _block(ax: Axes, record: Record, name: str, top: float, end: float) -> list[tuple[float, str]]:
    """Draw a method's tracks from `top` down; returns (place, text) of the tracks' labels."""
    timeline, tracks = record.timeline, []
    place = top
    ax.axhspan(top - 0.1, top + _height(timeline) + 0.1, color="#F4F4F4", linewidth=0, zorder=0)
    ax.text(0, top - 0.2, name, fontsize=TEXT, fontweight="bold", va="bottom")
    if timeline.selected:
        _bars(ax, [_span(0, timeline.selected)], place, 1, STAGES["select"])
        tracks.append((place + 0.5, "select"))
        place += 1
    lanes = threads(timeline)
    for lane in lanes:
        for stage, colour in (("select", STAGES["select"]), ("fuse", STAGES["load"])):
            spans = [
                _span(load.began, load.ended)
                for load in timeline.loads
                if load.thread == lane and load.stage == stage
            ]
            _bars(ax, spans, place, LANE, _pale(colour, 0.35) if stage == "select" else colour)
        place += LANE
    if lanes:
        many = f"load, {len(lanes)} threads" if len(lanes) > 1 else "load"
        tracks.append((place - LANE * len(lanes) / 2, many))
    _compute(ax, timeline, place)
    tracks.append((place + 0.5, "compute"))
    _bars(ax, [_span(timeline.head_began, timeline.ended)], place + 1, 1, STAGES["first token"])
    tracks.append((place + 1.5, "first token"))
    ax.annotate(
        f"{timeline.ended * 1e3:.0f} ms", (timeline.ended * 1e3, place + 1.5), xytext=(4, 0),
        textcoords="offset points", va="center", fontsize=SMALL, fontweight="bold",
    )  # fmt: skip
    _inside(ax, "select", _span(0, timeline.selected), top + 0.5, end)
    if not timeline.layers:
        _inside(ax, "prefill", _span(timeline.selected, timeline.head_began), place + 0.5, end)
    return tracks


def _compute(ax: Axes, timeline: Timeline, place: float) -> None:
    """Layers in alternating shades; what a layer waits for its cache lies in it, white and hatched."""
    colour = STAGES["recompute"]
    if not timeline.layers:
        _bars(ax, [_span(timeline.selected, timeline.head_began)], place, 1, colour)
    for odd, shade in ((0, colour), (1, _pale(colour, 0.45))):
        _bars(ax, [_span(layer.began, layer.ended) for layer in timeline.layers[odd::2]], place, 1, shade)
    waits = [_span(layer.wait_began, layer.wait_ended) for layer in timeline.layers]
    ax.broken_barh(
        waits,
        (place + 0.08, 0.84),
        facecolor=WAITING,
        edgecolor=STAGES["load"],
        linewidth=0,
        hatch=HATCH,
        zorder=4,
    )


def _bars(ax: Axes, spans: list[Span], place: float, height: float, colour: str) -> None:
    ax.broken_barh(
        spans,
        (place + 0.08 * height, 0.84 * height),
        facecolor=colour,
        edgecolor="white",
        linewidth=0.15,
        zorder=3,
    )


def _inside(ax: Axes, text: str, span: Span, place: float, end: float) -> None:
    """Write into a bar that has room for it."""
    if span[1] > 0.07 * end:
        middle = span[0] + span[1] / 2
        ax.text(middle, place, text, ha="center", va="center", fontsize=SMALL, color="white", zorder=5)


def _span(began: float, ended: float) -> Span:
    return began * 1e3, max(ended - began, 0.0) * 1e3


def _pale(colour: str, share: float) -> str:
    red, green, blue = (part + (1 - part) * share for part in to_rgb(colour))
    return to_hex((red, green, blue))


def _legend(full_prefill: bool) -> list[Artist]:
    compute = STAGES["recompute"]
    handles: list[Artist] = [
        Patch(facecolor=STAGES["select"], label="select"),
        Patch(facecolor=_pale(STAGES["select"], 0.35), label="load for select"),
        Patch(facecolor=STAGES["load"], label="load for fusion"),
        Patch(facecolor=compute, label="layer (two shades in turn)"),
        Patch(facecolor=WAITING, edgecolor=STAGES["load"], hatch=HATCH, label="layer waits for its cache"),
        Patch(facecolor=STAGES["first token"], label="first token"),
    ]
    if full_prefill:
        line = Line2D([], [], **END, label="full prefill's end")
        handles.append(line)
    return handles
