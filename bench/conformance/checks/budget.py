"""How many positions are recomputed."""

from __future__ import annotations

from bench.conformance.outcome import Broken
from bench.conformance.stand import Stand
from bench.method import budget_of

RATIOS = (0.0, 0.1, 0.3, 0.5, 1.0)


def budget_is_exact(stand: Stand) -> None:
    """The last layer recomputes what budget() says, and under a swept rho that is floor(rho N) (eq. 8).

    Codes differ in the denominator (with the instruction, with the query, without the first chunk), and
    one user's "blending" recomputed nothing at all (LMCache issue 2442): no two ratios are the same then.
    """
    request, own = stand.request(), stand.nominal
    with stand.setup() as setup:
        for rho in RATIOS if own is None else (own,):
            counted = len(setup.run(request, rho).positions[-1])
            budget = setup.budget(request, rho)
            if counted != budget:
                raise Broken(f"{counted} positions at the last layer, the budget is {budget}", "select()")
            floor = budget_of(rho, request.context_tokens)
            if own is None and budget != floor:
                raise Broken(f"budget() gives {budget} where floor(rho N) is {floor}", "budget()")


def nominal_rho_is_counted(stand: Stand) -> None:
    """The rho a figure shows is the share of context positions recomputed at the last layer.

    Also of a method with a rho of its own (`nominal`): EPIC's k tokens a chunk were compared at ratios
    nobody counted.
    """
    size, chunks = 40, 4
    request = stand.request((size,) * chunks)
    with stand.setup() as setup:
        nominal = setup.named.method.nominal(chunks, size)
        for rho in (0.1, 0.3, 0.5) if nominal is None else (nominal,):
            counted = len(setup.run(request, rho).positions[-1])
            if abs(counted - rho * request.context_tokens) >= 1:
                share = counted / request.context_tokens
                raise Broken(f"{share:.2f} of the positions are recomputed, rho is {rho:.2f}", "nominal()")
