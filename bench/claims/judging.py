"""Judges every claim over runs: which panels enter, what the number is, what that says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from bench.claims.family import p_value, with_family
from bench.claims.file import Claim, claims
from bench.claims.leave_one_out import with_panels
from bench.claims.measure import Estimate, Measure
from bench.claims.panel import Panel, panels_of
from bench.claims.points import Missing, TooSmall
from bench.claims.power import about, requests_needed
from bench.claims.verdict import (
    INCONCLUSIVE,
    NO_DATA,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    TOO_FEW,
    Verdict,
)
from bench.results.points import dataset_notes
from bench.results.run_folder import RunFolder

FAILED_SHARE = 0.1
"""With more failed rows than this at a point a claim is not judged: what is left may be what is easy."""

DISTURBED_SHARE = 0.1
"""With this share of requests timed on a disturbed machine a claim about times is not judged."""
TIMES = ("ttft_s", "select_s", "load_s", "recompute_s", "first_token_s")


@dataclass(frozen=True)
class _Entry:
    panel: Panel
    n: int


def judge(runs: Sequence[RunFolder]) -> list[Verdict]:
    """One verdict for each claim of `bench/claims.yaml`, in the file's order.

    Panels (a model on a dataset, in one run) are pooled with equal weight. Where several runs measured the
    same one, the run with most requests counts, the first of equals. Rows labelled predicted never count.
    """
    panels = panels_of(runs)
    predicted = any(run.frame["predicted"].eq(True).any() for run in runs)
    return with_family([judge_one(claim, panels, predicted) for claim in claims()])


def judge_one(claim: Claim, panels: Sequence[Panel], predicted: bool) -> Verdict:
    """The verdict on one claim; `predicted`: whether rows were left out because they are labelled so."""
    entries: list[_Entry] = []
    missing: list[str] = []
    unfit: list[str] = []
    elsewhere = ""
    for panel in panels:
        if claim.datasets and not any(fnmatchcase(panel.dataset, pattern) for pattern in claim.datasets):
            elsewhere = f"no rows of {' or '.join(claim.datasets)}"
            continue
        try:
            entries.append(_Entry(panel, _requests(claim, panel)))
        except Missing as lack:
            missing.append(str(lack))
        except TooSmall as lack:
            unfit.append(str(lack))
    entries = _one_each(entries, claim)
    n, shapes = sum(entry.n for entry in entries), len({entry.panel.shape for entry in entries})
    requires = claim.requires
    if entries and shapes < requires.shapes:
        unfit.append(f"profile: needs {requires.shapes} context shapes, the runs have {shapes}")
    elif entries and n < requires.requests_in_all:
        unfit.append(f"profile: needs {requires.requests_in_all} requests in all, the runs have {n}")
    elif entries:
        try:
            return _judged(claim, entries)
        except TooSmall as lack:
            unfit.append(str(lack))
    if unfit:
        return _unjudged(claim, NOT_TESTABLE, _often(unfit))
    reason = _often(missing) or elsewhere or "no rows"
    if predicted:
        reason += "; rows labelled predicted do not count"
    named = " or ".join(filter(None, claim.experiments))
    return _unjudged(claim, NO_DATA, f"{reason} ({f'experiment {named}' if named else 'no experiment yet'})")


def _requests(claim: Claim, panel: Panel) -> int:
    """How many requests of a panel the claim can use. Raises `Missing` or `TooSmall` where it cannot."""
    unmet = claim.requires.unmet(panel)
    try:
        wanted = list(claim.measure.wanted(panel).values())
    except TooSmall as lack:
        raise TooSmall(unmet or str(lack)) from lack
    if unmet:
        raise TooSmall(unmet)
    failed = panel.failed_share([series.key for series in wanted])
    if failed > FAILED_SHARE:
        raise TooSmall(f"{panel.dataset}: {failed:.0%} of the rows of a method it compares failed")
    if claim.measure.reads_scores and panel.tells_nothing:
        raise TooSmall(panel.tells_nothing)
    table = panel.table(wanted)
    n = len(table)
    if n == 0:
        lacking = sorted({s.column for s in wanted if panel.by_key[s.key][s.column].isna().all()})
        raise Missing(f"the rows lack {', '.join(lacking)}" if lacking else "no request has all it compares")
    if n < claim.requires.requests:
        raise TooSmall(
            f"profile: needs {claim.requires.requests} requests a dataset, {panel.dataset} has {n}"
        )
    return n


def _one_each(entries: Sequence[_Entry], claim: Claim) -> list[_Entry]:
    """One entry for each model and dataset (and shape), of one shape unless the claim is about shapes."""
    best: dict[tuple[object, ...], _Entry] = {}
    for entry in entries:
        key = (entry.panel.model, entry.panel.dataset, entry.panel.shape)
        if key not in best or entry.n > best[key].n:
            best[key] = entry
    chosen = list(best.values())
    if claim.each == "shape" or not chosen:
        return chosen
    counts = Counter(entry.panel.shape for entry in chosen)
    shape = max(counts, key=lambda one: (counts[one], one[0] * one[1]))
    return [entry for entry in chosen if entry.panel.shape == shape]


def _judged(claim: Claim, entries: Sequence[_Entry]) -> Verdict:
    """Raises `TooSmall` where what is left of the panels is not enough."""
    panels, n = [entry.panel for entry in entries], sum(entry.n for entry in entries)
    share, unknown = _disturbed(claim, panels)
    if share >= DISTURBED_SHARE:
        raise TooSmall(f"{share:.0%} of the requests were timed on a disturbed machine")
    failed, premise_note = _premise(claim, panels, n)
    if failed is not None:
        return failed
    found = _estimate(claim, panels, n)
    count = {id(entry.panel): entry.n for entry in entries}

    def by_themselves(some: Sequence[Panel]) -> tuple[str, str, int]:
        own = sum(count[id(panel)] for panel in some)
        estimate = _estimate(claim, some, own)
        return _side(claim, estimate), _numbers(claim.measure, estimate), own

    said = with_panels(panels, _side(claim, found), by_themselves)
    word, words, needed = said.verdict, said.words, requests_needed(claim, found, n)
    small = ""
    if word == INCONCLUSIVE and needed > n:
        word, words = TOO_FEW, f"not testable with {n:,} requests ({about(needed)} needed)"
    elif word == INCONCLUSIVE and needed <= n and claim.assumed is not None and _excludes(claim, found):
        small = (
            f"the rows could have shown {claim.measure.text(claim.assumed)}, and it lies outside the interval"
        )
    axes = _axes(claim, panels)
    remark = "; ".join(filter(None, [found.note, small, premise_note, unknown, claim.note]))
    return Verdict(
        claim.id, claim.section, claim.claim, claim.expects, _numbers(claim.measure, found),
        found.value, found.low, found.high, n, word,
        "; ".join(filter(None, [f"on {axes}; n = {n}", remark])), axes, remark, words, said.each,
        claim.premise.says if claim.premise else "", claim.weak, needed, p_value(claim, found),
    )  # fmt: skip


def _premise(claim: Claim, panels: Sequence[Panel], n: int) -> tuple[Verdict | None, str]:
    """The verdict where a claim's premise fails on its own panels; else None and what was found of it."""
    if claim.premise is None:
        return None, ""
    premise = claim.premise
    try:
        found = premise.measure.estimate(panels, n)
    except (Missing, TooSmall) as lack:
        return None, f"premise not checked: {premise.says} ({lack})"
    if premise.holds(found.value):
        return None, f"premise holds: {premise.says} ({premise.measure.text(found.value)})"
    reason = f"premise fails: {premise.says} ({premise.measure.text(found.value)})"
    if premise.instead is None:
        return _unjudged(claim, NOT_TESTABLE, reason), ""
    other = premise.instead.estimate(panels, n)
    measured = f"instead, {_words(premise.instead)}: {_numbers(premise.instead, other)}"
    reason = "; ".join(filter(None, [reason, measured, other.note]))
    return replace(_unjudged(claim, NOT_TESTABLE, reason), measured=measured), ""


def _disturbed(claim: Claim, panels: Sequence[Panel]) -> tuple[float, str]:
    """The share of the requests of a claim about times that were disturbed, and a word where rows lack it."""
    flags: list[bool | None] = []
    for panel in panels:
        wanted = list(claim.measure.wanted(panel).values())
        if any(series.column in TIMES for series in wanted):
            flags += panel.disturbed([series.key for series in wanted])
    if not flags:
        return 0.0, ""
    share = sum(flag is True for flag in flags) / len(flags)
    unknown = sum(flag is None for flag in flags)
    if not unknown:
        return share, f"{share:.0%} of the requests were timed on a disturbed machine" if share else ""
    some = "the rows do" if unknown == len(flags) else f"{unknown} requests do"
    return share, f"{some} not tell whether the machine was disturbed"


def _words(measure: Measure) -> str:
    return {"equal_time_difference": "score less the other's at equal TTFT"}.get(measure.kind, measure.kind)


def _numbers(measure: Measure, found: Estimate) -> str:
    text = found.instead or measure.text(found.value)
    if not found.instead and not np.isnan(found.low):
        text += f" [{_bound(measure, found.low)}, {_bound(measure, found.high)}]"
    return text


def _excludes(claim: Claim, found: Estimate) -> bool:
    assumed = claim.assumed
    return assumed is not None and not found.low <= assumed <= found.high


def _estimate(claim: Claim, panels: Sequence[Panel], n: int) -> Estimate:
    if claim.each == "pooled":
        return claim.measure.estimate(panels, n)
    shapes = sorted({panel.shape for panel in panels}, key=lambda shape: (shape[0] * shape[1], shape))
    each = [claim.measure.pooled([panel for panel in panels if panel.shape == shape])[0] for shape in shapes]
    stacked = np.stack(each)
    upward = claim.comparison in ("at_least", "above")
    worst = stacked.min(axis=0) if upward else stacked.max(axis=0)
    at = int((np.argmin if upward else np.argmax)(stacked[:, 0]))
    return claim.measure.interval(worst, n, f"worst at {_shape(shapes[at])}")


def _side(claim: Claim, found: Estimate) -> str:
    """Reproduced where estimate and interval lie in the claim's range, not where both lie outside it."""
    low, high = claim.threshold
    ends = [found.low, found.value, found.high]
    if any(np.isnan(end) for end in ends):
        return INCONCLUSIVE
    # 0.8 - 0.01 is not 0.79 in binary
    slack = -1e-9 if claim.comparison in ("above", "below") else 1e-9
    inside = [low - slack <= end <= high + slack for end in ends]
    if all(inside):
        return REPRODUCED
    if max(ends) < low - slack or min(ends) > high + slack:
        return NOT_REPRODUCED
    return INCONCLUSIVE


def _bound(measure: Measure, value: float) -> str:
    if np.isfinite(value):
        return measure.text(value)
    return "∞" if value > 0 else "-∞"


def _axes(claim: Claim, panels: Sequence[Panel]) -> str:
    models = list(dict.fromkeys(panel.model.rsplit("/", 1)[-1] for panel in panels))
    notes: dict[str, str] = {}
    for panel in panels:
        notes |= dataset_notes(dict(panel.info))
    names = list(dict.fromkeys(panel.dataset for panel in panels))
    datasets = [f"{name} ({notes[name]})" if name in notes else name for name in names]
    shapes = sorted({panel.shape for panel in panels})
    keys = [series.key for panel in panels for series in claim.measure.wanted(panel).values()]
    stores = list(dict.fromkeys(key.bandwidth for key in keys if key.bandwidth))
    store = (
        ""
        if stores in ([], ["none"])
        else f"store at {stores[0]}"
        if len(stores) == 1
        else "several bandwidths"
    )
    parts = [
        ", ".join(models), ", ".join(datasets), ", ".join(map(_shape, shapes)), store,
        ", ".join(dict.fromkeys(panel.run for panel in panels)),
    ]  # fmt: skip
    return "; ".join(filter(None, parts))


def _shape(shape: tuple[int, int]) -> str:
    return f"{shape[0]} chunks of {shape[1]} tokens"


def _unjudged(claim: Claim, verdict: str, reason: str) -> Verdict:
    nan = float("nan")
    return Verdict(
        claim.id, claim.section, claim.claim, claim.expects, "-", nan, nan, nan, 0, verdict, reason,
        remark=reason, premise=claim.premise.says if claim.premise else "", weak=claim.weak,
    )  # fmt: skip


def _often(reasons: Sequence[str]) -> str:
    """The reasons, the most frequent first, two at most."""
    return "; ".join(reason for reason, _ in Counter(reasons).most_common(2))
