"""Selection while layers are recomputed."""

from __future__ import annotations

from bench.conformance.outcome import Broken, Skipped
from bench.conformance.stand import Stand
from bench.conformance.watch import Watch


def narrow_keeps_the_budget(stand: Stand) -> None:
    """narrow() never keeps fewer positions than the budget, and just the budget in the end.

    The last layer is counted; one that dips below the budget and cannot come back, or that never reaches
    it on a model of few layers, is measured at another rho than its label says.
    """
    if not stand.narrows:
        raise Skipped("it has no narrow()")
    request = stand.request()
    for rho in (0.1, 0.5, 0.9):
        watch = Watch()
        with stand.setup() as setup:
            budget = setup.budget(request, rho)
            left = setup.run(request, rho, watch).positions[-1]
        for call in watch.narrowed:
            if call.kept is not None and len(call.kept) < budget:
                what = f"at layer {call.layer} it keeps {len(call.kept)} positions, the budget is {budget}"
                raise Broken(what, "narrow()")
        if len(left) != budget:
            raise Broken(f"{len(left)} positions at the last layer, the budget is {budget}", "narrow()")
