"""Under what conditions a run was measured: where caches lay, how quiet the machine was, what to trust."""

from __future__ import annotations

from typing import Any

import pandas as pd

from bench.results.paper_setup import MARKED, relative
from bench.results.points import COLD_PREFILL, FULL_PREFILL, PANEL, PREFILLS, alarms

DISK = max(MARKED)
"""Bytes a second that the paper's disk reads."""
NEAR = 0.1
"""A throttle this close to the paper's disk on the relative axis is said to be it."""


def conditions(frame: pd.DataFrame, run_info: dict[str, Any]) -> list[str]:
    """What holds for every number of the run, a sentence each: storage, full prefill's cache, disturbance."""
    return [text for text in (storage(frame, run_info), _prefill(frame, run_info), disturbed(frame)) if text]


def storage(frame: pd.DataFrame, run_info: dict[str, Any]) -> str:
    """Where caches lay and how fast they were read; "" where the run does not tell."""
    sweep = run_info.get("sweep")
    store = sweep.get("store") if isinstance(sweep, dict) else None
    readers = frame[~frame["method"].isin(PREFILLS)]
    throttled = readers[readers["bandwidth"] != "none"]
    where = {"memory": "in memory", "disk": "on disk"}.get(str(store), "")
    if throttled.empty:
        if store == "memory":
            return "Caches in memory: loads cost next to nothing, no claim about storage follows."
        return "Caches on disk, store not throttled." if where else ""
    names = list(throttled["bandwidth"].unique())
    if len(names) > 1 or len(readers) > len(throttled):
        found = f"Caches {where}, " if where else ""
        return f"{found}store throttled, at several bandwidths.".strip().capitalize()
    rates = throttled["bandwidth_bytes_per_s"].dropna()
    text = f"store throttled to {names[0]}"
    if _is_paper(names[0]):
        text += f": {DISK / 1e9:.0f} GB/s on the paper's H20, computed"
    if len(rates):
        here = rate(rates.min())
        here += f" to {rate(rates.max())}" if rate(rates.max()) != here else ""
        text += f"; {here} here"
    return f"Caches {where}, {text}." if where else f"{text.capitalize()}."


def rate(bytes_per_s: float) -> str:
    """ "250 MB/s", three digits."""
    for scale, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_s >= scale:
            return f"{bytes_per_s / scale:.3g} {unit}"
    return f"{bytes_per_s:.3g} B/s"


def disturbed_share(frame: pd.DataFrame) -> tuple[int, int, int]:
    """Requests timed on a disturbed machine, requests that tell, and requests timed more than once."""
    each = frame.groupby([*PANEL, "request"]).agg(
        disturbed=("disturbed", lambda known: known.eq(True).any()),
        told=("disturbed", lambda known: known.notna().any()),
        taken=("times_taken", "max"),
    )
    return int(each["disturbed"].sum()), int(each["told"].sum()), int((each["taken"] > 1).sum())


def disturbed(frame: pd.DataFrame) -> str:
    """How many requests were timed on a disturbed machine, how many again; "" where there are no rows."""
    if frame.empty:
        return ""
    count, told, again = disturbed_share(frame)
    if not told:
        return "Whether the machine was disturbed while requests were timed was not recorded."
    share = f"{count} of {told} requests ({count / told:.0%}) timed on a disturbed machine"
    return f"{share}, {again} timed again." if again else f"{share}."


def distrust(run_info: dict[str, Any]) -> list[str]:
    """What speaks against the run as a whole: failed checks of a model (`trust`), and its own `warnings`."""
    found = []
    trust = run_info.get("trust")
    for model, about in trust.items() if isinstance(trust, dict) else ():
        failed = about.get("failed") if isinstance(about, dict) else None
        if failed:
            found.append(f"model not trusted: {model}: {'; '.join(map(str, failed))}")
    warnings = run_info.get("warnings")
    return found + [str(text).rstrip(".") for text in (warnings if isinstance(warnings, list) else [])]


def instruction_cached(run_info: dict[str, Any]) -> bool:
    """Whether the run says that its full prefill had the instruction S cached; older ones computed it."""
    methods = run_info.get("methods")
    return any(
        isinstance(one, dict) and one.get("name") == FULL_PREFILL and one.get("prefix_cached") is True
        for one in (methods if isinstance(methods, list) else [])
    )


def _prefill(frame: pd.DataFrame, run_info: dict[str, Any]) -> str:
    if not frame["method"].eq(FULL_PREFILL).any():
        return ""
    if instruction_cached(run_info):
        cold = frame["method"].eq(COLD_PREFILL).any()
        return "Full prefill has S cached, as every method has" + (
            "; the one with nothing cached is no reference." if cold else "."
        )
    return ""


def _is_paper(bandwidth: str) -> bool:
    multiple = bandwidth.removesuffix("x")
    try:
        return bandwidth.endswith("x") and abs(float(multiple) / relative(DISK) - 1) < NEAR
    except ValueError:
        return False


def cautions(frame: pd.DataFrame, run_info: dict[str, Any]) -> list[str]:
    """What must stand on every figure and table: `distrust`, then alarms (`bench.results.points`)."""
    return [*distrust(run_info), *alarms(frame)]
