"""All checks on one method, one outcome each."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.conformance.checks import CHECKS
from bench.conformance.outcome import Broken, Known, Outcome, Skipped
from bench.conformance.stand import Stand
from bench.runners.measure import MethodFault


def name_of(check: Callable[[Stand], None]) -> str:
    """ "budget_is_exact" is shown as "budget is exact"."""
    return check.__name__.replace("_", " ")


def check_all(stand: Stand) -> Iterator[Outcome]:
    """Run every check in order. Where the method stops several of them alike, the first says why."""
    first: Outcome | None = None
    for check in CHECKS:
        outcome = check_one(check, stand)
        if outcome.stopped and first is not None:
            outcome = Outcome(outcome.check, "skipped", f"the method stops as in {first.check!r}")
        elif outcome.stopped:
            first = outcome
        yield outcome


def check_one(check: Callable[[Stand], None], stand: Stand) -> Outcome:
    """Run a check. An error raised by the method fails the check it was raised in."""
    name = name_of(check)
    try:
        check(stand)
    except Skipped as skipped:
        return Outcome(name, "skipped", str(skipped))
    except Known as known:
        return Outcome(name, "known", str(known))
    except Broken as broken:
        return Outcome(name, "failed", f"{broken}; look at {broken.where} in {_file(stand).name}")
    except MethodFault as fault:
        where = "narrow()" if "last layer" in str(fault) else "select()"
        why = f"{fault}; look at {where} in {_file(stand).name}"
        return Outcome(name, "failed", why, stopped=True)
    except Exception as error:  # the method's own: the other checks may still tell something
        why = f"{type(error).__name__}: {error}; look at {_raised(error, stand)}"
        return Outcome(name, "failed", why, stopped=True)
    return Outcome(name, "ok")


def _file(stand: Stand) -> Path:
    return Path(str(sys.modules[type(stand.method).__module__].__file__))


def _raised(error: Exception, stand: Stand) -> str:
    """The method's innermost line on the way to the error, or where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == _file(stand)]
    frame = (own or list(frames))[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}()"
