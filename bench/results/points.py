"""Operating points: a method with its parameters at one rho, on one model and dataset."""

from __future__ import annotations

import json
import zlib
from typing import Any, Literal

import pandas as pd

from bench.metrics import METRICS

PANEL = ["model", "dataset"]
POINT = ["model", "dataset", "method", "params", "rho", "bandwidth"]
FULL_PREFILL = "full_prefill"
"""The reference of every quality and speed-up."""
COLD_PREFILL = "cold_prefill"
"""Full prefill with nothing cached: an operating point beside it, no reference and no method to be ranked."""
PREFILLS = (FULL_PREFILL, COLD_PREFILL)
"""What reads no cache: it has no bandwidth and no curve."""
PAPER = "{}"
"""The parameters of a method's default as text: the paper's rule."""
PARTS = ["select_s", "load_s", "recompute_s", "first_token_s"]
WAITS = ["select_wait_s"]
Axis = Literal["rho", "bandwidth"]

CONDUCT = ["at_limit", "precision", "quotes"]
QUOTES = 0.10
"""A method whose answers quote the instruction this much more or less often than full prefill's is told."""

_MEAN = ["score", "evidence_recall", "needle_recall", "rho_effective", "bytes_before_fusion", "bytes_total"]
_MEAN += CONDUCT
_MEDIAN = ["ttft_s", *PARTS, *WAITS]


def ok_requests(frame: pd.DataFrame, over: Axis = "rho") -> pd.DataFrame:
    """The measured requests: one line for each operating point and request, `variant` added.

    Only rows with status "ok". A request measured several times counts once: its mean score and
    bytes, its median times. Sorted by operating point and request id. `over` as in
    `with_variants`. Added too, NaN where not known: `at_limit`, 1 for an answer that ran into the limit
    of new tokens, and `quotes`, 1 for one that quotes the instruction.
    """
    named = with_conduct(with_variants(frame, over=over))
    ok = named[named["status"] == "ok"]
    keys = [*POINT, "request"]
    if ok.duplicated(keys).any():
        how: dict[str, Any] = dict.fromkeys(_MEAN, "mean") | dict.fromkeys(_MEDIAN, "median")
        ok = ok.groupby(keys, as_index=False).agg(
            how | dict.fromkeys(["metric", "variant", "bandwidth_bytes_per_s", "bandwidth_unit"], "first")
        )
    return ok.sort_values(keys, kind="stable", ignore_index=True)


def with_variants(frame: pd.DataFrame, over: Axis = "rho") -> pd.DataFrame:
    """Add the column `variant`: the method's name, and its parameters where they tell curves apart.

    A parameter is named only where a method has several values of it on the same model and
    dataset ("qcfuse(anchor_ratio=0.2)"); one that follows the model, such as profiled layers,
    is not, nor is one that is left at its default: the paper's rule has the method's plain name.
    Of rho and bandwidth, `over` is the one that curves are drawn over; the other one is named as a
    parameter is ("qcfuse(bandwidth=1x)").
    """
    named = frame.copy()
    other = "bandwidth" if over == "rho" else "rho"
    labels: dict[tuple[str, str, str | float], str] = {}
    for method, rows in frame.groupby("method"):
        texts = list(rows["params"].unique())
        parsed = {text: json.loads(text) for text in texts}
        telling: set[str] = set()
        for _, panel in rows.groupby(PANEL):
            telling |= _varying([parsed[text] for text in panel["params"].unique()])
        several = rows.groupby(PANEL)[other].nunique().max() > 1
        for text in texts:
            values = [f"{key}={parsed[text][key]}" for key in sorted(telling) if key in parsed[text]]
            for value in rows[other].unique():
                shown = ",".join([*values, f"{other}={value}"] if several else values)
                labels[str(method), text, value] = f"{method}({shown})" if shown else str(method)
    keys = zip(frame["method"], frame["params"], frame[other], strict=True)
    named["variant"] = [labels[key] for key in keys]
    return named


def with_conduct(frame: pd.DataFrame) -> pd.DataFrame:
    """Add `at_limit` and `quotes`, 1.0 or 0.0, NaN where a row does not tell (`ok_requests`)."""
    return frame.assign(
        at_limit=frame["stopped"].eq("limit").astype("float64").where(frame["stopped"].notna()),
        quotes=frame["quotes_instruction"]
        .eq(True)
        .astype("float64")
        .where(frame["quotes_instruction"].notna()),
    )


def by_paper(points: pd.DataFrame) -> pd.Series:
    """Whether a line of `points` is its method's default (`PAPER`), or that default was not measured."""
    default = points["params"] == PAPER
    return default | ~points["method"].isin(points.loc[default, "method"].unique())


def aside(points: pd.DataFrame) -> pd.Series:
    """Lines of parameters beside the paper's rule, where several methods have such lines.

    They stand back in figures and tables, which then are those of the paper's rules. Where a single method
    has them, they are the run's subject, and none is aside.
    """
    others = ~by_paper(points)
    return others & bool(points.loc[others, "method"].nunique() > 1)


def family(metric: str) -> str:
    """The metric family of a metric: its label ("F1", "SM"), the name itself where it is unknown."""
    return METRICS[metric].label if metric in METRICS else metric


def stream(dataset: str) -> int:
    """The bootstrap seed of a dataset.

    Models share a dataset's requests, so they share its draws; different datasets are
    independent, so theirs must differ.
    """
    return zlib.crc32(dataset.encode())


def alarms(frame: pd.DataFrame) -> list[str]:
    """What in a frame of rows must not go unseen, one line each; empty where all is well."""
    if frame.empty:
        return ["the run has no rows"]
    found = []
    for (model, dataset), rows in frame.groupby(PANEL):
        for kind in ("empty", "echo"):
            count, known = int(rows[kind].fillna(False).sum()), int(rows[kind].notna().sum())
            if known and count > known / 4:
                found.append(f"{model}, {dataset}: {count} of {known} answers are {kind}")
        scores = rows.loc[rows["status"] == "ok", "score"].dropna()
        full = scores[rows["method"] == FULL_PREFILL]
        if scores.empty:
            found.append(f"{model}, {dataset}: no scored request")
        elif (scores == 0).all() or (scores == 1).all():
            found.append(f"{model}, {dataset}: every score of every method is {scores.iloc[0]:.0f}")
        elif full.empty:
            found.append(f"{model}, {dataset}: no full prefill to compare with")
        elif (full == 0).all():
            found.append(f"{model}, {dataset}: every score of full prefill is 0")
        if len(rows[["chunks", "chunk_tokens"]].drop_duplicates()) > 1:
            found.append(f"{model}, {dataset}: rows of several context shapes are pooled")
        found += [f"{model}, {dataset}: {text}" for text in _quoting(rows)]
    return found


def _quoting(rows: pd.DataFrame) -> list[str]:
    """Methods whose answers hold words of the instruction much more or less often than full prefill's."""
    shares = with_conduct(rows[rows["status"] == "ok"]).groupby("method")["quotes"].mean().dropna()
    if FULL_PREFILL not in shares:
        return []
    full = shares[FULL_PREFILL]
    return [
        f"{share:.0%} of the answers of {method} quote the instruction, {full:.0%} of full prefill's"
        for method, share in shares.items()
        if abs(share - full) > QUOTES + 1e-9
    ]


def dataset_notes(run_info: dict[str, Any]) -> dict[str, str]:
    """The caveat of each dataset that has one, from `run.json`."""
    datasets = run_info.get("datasets")
    if not isinstance(datasets, dict):
        return {}
    notes = {name: about.get("note") for name, about in datasets.items() if isinstance(about, dict)}
    return {str(name): str(note) for name, note in notes.items() if note}


def answers_lost(run_info: dict[str, Any]) -> dict[str, float]:
    """The share of samples whose answer truncation cut away, of each dataset where there is one."""
    datasets = run_info.get("datasets")
    if not isinstance(datasets, dict):
        return {}
    sources = {name: about.get("source") for name, about in datasets.items() if isinstance(about, dict)}
    shares = {n: s.get("share_answer_lost") for n, s in sources.items() if isinstance(s, dict)}
    return {str(name): float(share) for name, share in shares.items() if share}


def spread(values: pd.Series) -> str:
    """ "12", or "10 to 12" where they differ; of the values above 0."""
    some = values[values > 0]
    if some.empty:
        return "0"
    return str(some.min()) if some.min() == some.max() else f"{some.min()} to {some.max()}"


def _varying(params: list[dict[str, Any]]) -> set[str]:
    keys = {key for one in params for key in one}
    return {key for key in keys if len({repr(one.get(key, "default")) for one in params}) > 1}
