"""One idea a file; a check raises `Broken`, `Skipped` or `Known`, or returns."""

from __future__ import annotations

from collections.abc import Callable

from bench.conformance.checks.budget import budget_is_exact, nominal_rho_is_counted
from bench.conformance.checks.determinism import does_not_depend_on_global_random_state
from bench.conformance.checks.endpoints import k_0_equals_direct_reuse, rho_1_equals_full_prefill
from bench.conformance.checks.leak import no_row_sees_the_future
from bench.conformance.checks.metered import nothing_is_read_around_the_view
from bench.conformance.checks.narrowing import narrow_keeps_the_budget
from bench.conformance.checks.order import permuted_chunks_get_their_own_answer
from bench.conformance.checks.positions import positions_are_valid
from bench.conformance.checks.repeats import idempotent_on_one_store, repeated_request_is_answered_anew
from bench.conformance.checks.shapes import chunk_of_one_token, last_chunk_short, one_chunk
from bench.conformance.checks.tiers import memory_and_disk_tier_agree
from bench.conformance.checks.writes import request_is_left_unchanged, tensors_are_left_unchanged
from bench.conformance.stand import Stand

CHECKS: tuple[Callable[[Stand], None], ...] = (
    budget_is_exact,
    nominal_rho_is_counted,
    positions_are_valid,
    narrow_keeps_the_budget,
    rho_1_equals_full_prefill,
    k_0_equals_direct_reuse,
    no_row_sees_the_future,
    one_chunk,
    chunk_of_one_token,
    last_chunk_short,
    idempotent_on_one_store,
    repeated_request_is_answered_anew,
    permuted_chunks_get_their_own_answer,
    does_not_depend_on_global_random_state,
    memory_and_disk_tier_agree,
    nothing_is_read_around_the_view,
    tensors_are_left_unchanged,
    request_is_left_unchanged,
)
