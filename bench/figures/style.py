"""How a method looks in every figure: its label, one fixed colour, one fixed marker."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import seaborn as sns

from bench.results.points import COLD_PREFILL, FULL_PREFILL

DIRECT_REUSE = "direct_reuse"
REFERENCES = (FULL_PREFILL, COLD_PREFILL, DIRECT_REUSE)
"""The endpoints of the recomputation ratio: one point each, no curve."""


@dataclass(frozen=True)
class MethodStyle:
    """Label, colour (hex) and Matplotlib marker of a method."""

    label: str
    colour: str
    marker: str


# Okabe and Ito, "Color Universal Design" (2008); their yellow is too pale for lines on white
_BUILT_IN = {
    FULL_PREFILL: MethodStyle("Full prefill", "#000000", "*"),
    COLD_PREFILL: MethodStyle("Full prefill, nothing cached", "#8B5A2B", "*"),
    DIRECT_REUSE: MethodStyle("Direct reuse", "#7F7F7F", "X"),
    "cacheblend": MethodStyle("CacheBlend", "#009E73", "s"),
    "epic": MethodStyle("EPIC", "#CC79A7", "^"),
    "fusionrag": MethodStyle("FusionRAG", "#E69F00", "D"),
    "prophetkv": MethodStyle("ProphetKV", "#0072B2", "v"),
    "qcfuse": MethodStyle("QCFuse", "#D55E00", "o"),
    "random_tokens": MethodStyle("Random tokens (control)", "#56B4E9", "P"),
    "first_tokens": MethodStyle("First tokens (control)", "#999933", "<"),
    "last_tokens": MethodStyle("Last tokens (control)", "#44AA99", ">"),
    "oracle_deviation": MethodStyle("Oracle deviation (control)", "#882255", "p"),
    "gold_evidence": MethodStyle("Gold evidence (control)", "#332288", "h"),
}

# Paul Tol's "muted", "light" and "dark" schemes (SRON/EPS/TN/09-002), without those close to the above
_OTHERS = [
    ("#117733", "H"),
    ("#661100", "d"),
    ("#AA4499", "8"),
    ("#EE8866", "p"),
    ("#225555", "<"),
    ("#666633", ">"),
]


STAGES = {"select": "#B5446E", "load": "#6FB1D6", "recompute": "#5B6B7F", "first token": "#C9B458"}
"""One colour a stage of the time to first token, in every figure of stages; no method has one of them."""
WAITING = "#FFFFFF"
"""Waiting: white, with hatches in the colour of the stage that waits."""


def order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of every legend and table: built-in ones first, then by name."""
    built_in = list(_BUILT_IN)
    known = set(methods)
    return [name for name in built_in if name in known] + sorted(known - set(built_in))


def styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """The style of each method, in legend order.

    Built-in methods never change. A user's method gets a slot by the CRC-32 of its name, the
    next free one where two names meet: the same names always give the same styles.
    """
    found: dict[str, MethodStyle] = {}
    taken: set[int] = set()
    for name in order(methods):
        if name in _BUILT_IN:
            found[name] = _BUILT_IN[name]
            continue
        slot = zlib.crc32(name.encode()) % len(_OTHERS)
        while slot in taken and len(taken) < len(_OTHERS):
            slot = (slot + 1) % len(_OTHERS)
        taken.add(slot)
        found[name] = MethodStyle(name, *_OTHERS[slot])
    return found


def label(method: str) -> str:
    """The label of a method: the paper's spelling where it is built in, else its name."""
    return _BUILT_IN[method].label if method in _BUILT_IN else method


def full_label(text: str, instruction_cached: bool) -> str:
    """A label as it is, full prefill's with "(S cached)" where it had the instruction S cached."""
    return f"{text} (S cached)" if instruction_cached and text == _BUILT_IN[FULL_PREFILL].label else text


def variant_label(method: str, variant: str) -> str:
    """The label of a variant: "QCFuse (anchor_ratio=0.2)", or just the method's."""
    parameters = variant.removeprefix(method)
    return f"{label(method)} {parameters}" if parameters else label(method)


def theme() -> None:
    """Set the Seaborn theme of every figure: small type, white ground, faint grid."""
    sns.set_theme(
        context="paper",
        style="whitegrid",
        font_scale=0.8,
        rc={
            "axes.edgecolor": "#666666",
            "axes.linewidth": 0.6,
            "grid.color": "#E6E6E6",
            "grid.linewidth": 0.5,
            "xtick.major.pad": 1.5,
            "ytick.major.pad": 1.5,
            # the same figure twice is the same file: Matplotlib's own font, a fixed salt for ids
            "font.sans-serif": ["DejaVu Sans"],
            "svg.hashsalt": "qcfuse-bench",
        },
    )
