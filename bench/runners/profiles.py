"""The offline profile (QCFuse, sections 3.2.3 and 3.4): calibrate until the layers it names hold still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.assets import cache
from bench.data.requests import build_requests
from bench.errors import UserError
from bench.experiments import Sweep
from bench.method import Method, top
from bench.methods import NamedMethod
from bench.request import Request

if TYPE_CHECKING:
    from bench.runners.prepare import Preparer

CALIBRATION_SEED = 1_000_003
"""Calibration requests come from another seed than any measured set."""
STEP, LEAST = 16, 64
"""Requests taken at a time, and before the layers are first asked about: eight contexts of the built-in set,
without which a bootstrap over contexts has little to draw from."""
AGREEMENT = 0.8
"""Share of bootstrap draws that must name the layers the whole sample names."""
LAYERS = 3
"""|L*|: the paper's number of critical layers (section 3.4.3), where a method does not say its own."""
DRAWS = 1000


@dataclass(frozen=True)
class Profile:
    """A method's profile on a model, and how far it can be relied on."""

    mean: list[float]
    """The figure of merit by layer, averaged over the requests."""
    requests: int
    layers: list[int]
    """The best layers, ascending; ties go to the earlier layer (`bench.method.top`)."""
    agreement: float | None
    """Share of bootstrap draws with the same layers; None where the method names its layers itself."""
    tied: bool
    """Whether the last layer taken and the first one left have the same mean."""

    def recorded(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return {
            "requests": self.requests, "layers": self.layers, "agreement": self.agreement, "tied": self.tied,
        }  # fmt: skip


def profiled(methods: Iterable[NamedMethod]) -> list[NamedMethod]:
    """The methods that have a profile."""
    return [m for m in methods if type(m.method).profile is not Method.profile]


def refuse_same_task(sweep: Sweep, methods: Iterable[NamedMethod]) -> None:
    """Raise `UserError` where layers would be profiled on a family of tasks that the run evaluates."""
    family = sweep.calibration_set.name.partition("/")[0]
    same = [task.name for task in sweep.datasets if task.name.partition("/")[0] == family]
    if same and profiled(methods):
        raise UserError(
            f"calibration-set: layers would be profiled on {sweep.calibration_set.name} and the run "
            f"evaluates {same[0]}; take another set, such as --calibration-set calibration"
        )


def refuse_shared(calibration: Sequence[Request], evaluated: Sequence[Request], name: str) -> None:
    """Raise `UserError` where a calibration request has a chunk or a question of an evaluated one."""
    chunks = {chunk for request in evaluated for chunk in request.chunks}
    questions = {asked(request) for request in evaluated}
    for request in calibration:
        both = [part for part, shared in (
            ("question", asked(request) in questions), ("chunk", not chunks.isdisjoint(request.chunks))
        ) if shared]  # fmt: skip
        if both:
            raise UserError(
                f"calibration-set: request {request.id} of {name} has a {both[0]} that the run evaluates "
                "too; take another set, such as --calibration-set calibration"
            )


def asked(request: Request) -> tuple[int, ...]:
    """The question's token ids, or the whole query's where the question is not known."""
    begin, end = request.question
    return request.query[begin:end] or request.query


def calibrate(
    sweep: Sweep, methods: Sequence[NamedMethod], preparer: Preparer, evaluated: Sequence[Request],
    remark: Callable[[str], None],
) -> tuple[dict[str, Profile], dict[str, Any]]:  # fmt: skip
    """The profile of each method that has one, by its identity, and the provenance of the requests.

    Requests have the sweep's shape. At most `sweep.calibration` are taken, fewer where the layers agree
    in `AGREEMENT` of the bootstrap draws before; where they never do, `remark` says so. Raises `UserError`
    for a set that shares a chunk or a question with `evaluated`.
    """
    some = profiled(methods)
    if not some:
        return {}, {}
    task, made = sweep.calibration_set, {}

    def take(n: int) -> list[Request]:  # the first n of more are the same
        if n not in made:
            shape = (sweep.chunks, sweep.chunk_tokens, n)
            made[n] = build_requests(task.name, preparer.tokenizer, *shape, CALIBRATION_SEED, task.options)
            refuse_shared(made[n][0], evaluated, task.name)
        return made[n][0]

    folder, found = cache.root() / "profiles", {}
    for method in some:
        profile = found[method.identity] = adaptive(
            method, take, sweep.calibration, lambda m, r: preparer.profile_rows(m, r, folder)
        )
        if profile.agreement is not None and profile.agreement < AGREEMENT:
            remark(
                f"{method.name}: its top {len(profile.layers)} layers agree in {profile.agreement:.0%} of "
                f"bootstrap draws with {profile.requests} calibration requests "
                f"({AGREEMENT:.0%} wanted); another draw would select other tokens"
            )
    return found, {**made[max(made)][1], "most": sweep.calibration, "agreement_wanted": AGREEMENT}


def adaptive(
    method: NamedMethod, take: Callable[[int], Sequence[Request]], most: int,
    measure: Callable[[NamedMethod, Sequence[Request]], Sequence[Sequence[float]]],
) -> Profile:  # fmt: skip
    """Profile on more and more requests, until the layers agree or `most` are taken.

    `take(n)` gives the first n requests, `measure` their figures of merit by layer, [n, L].
    """
    said = getattr(method.method, "layers", LAYERS)
    k, own = (said, ()) if isinstance(said, int) else (None, tuple(said))
    taken = min(LEAST, most)
    while True:
        requests = take(taken)
        rows = np.asarray(measure(method, requests), dtype=float)
        profile = _profile(rows, [r.chunks for r in requests], k, own)
        if profile.agreement is None or profile.agreement >= AGREEMENT or taken == most:
            return profile
        taken = min(taken + STEP, most)


def _profile(
    rows: NDArray[np.float64], contexts: Sequence[Any], k: int | None, own: Sequence[int]
) -> Profile:
    mean = rows.mean(axis=0)
    if not k:
        return Profile(mean.tolist(), len(rows), sorted(own), None, False)
    order = top(mean.tolist(), len(mean)).tolist()
    tied = k < len(order) and bool(mean[order[k - 1]] == mean[order[k]])
    return Profile(mean.tolist(), len(rows), sorted(order[:k]), agreement(rows, contexts, k), tied)


def agreement(rows: NDArray[np.float64], contexts: Sequence[Any], k: int) -> float:
    """Share of bootstrap draws, in [0, 1], whose k best layers are those of the whole sample.

    `rows` [n, L] are figures of merit; the draws are over contexts, for requests that share one are not
    independent (a cluster bootstrap: Davison and Hinkley, Bootstrap Methods, 1997, section 3.8). One context
    alone says nothing: 0.
    """
    known: dict[Any, int] = {}
    of = np.asarray([known.setdefault(context, len(known)) for context in contexts])
    if len(known) < 2:
        return 0.0
    sums = np.stack([rows[of == i].sum(axis=0) for i in range(len(known))])
    sizes = np.bincount(of)
    draws = np.random.default_rng(0).integers(0, len(known), size=(DRAWS, len(known)))
    means = sums[draws].sum(axis=1) / sizes[draws].sum(axis=1)[:, None]
    best = set(top(rows.mean(axis=0).tolist(), k).tolist())
    return float(np.mean([set(top(draw.tolist(), k).tolist()) == best for draw in means]))
