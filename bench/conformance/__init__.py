"""Does a method keep the rules? The checks behind `qcbench check-method`, for ours and for a user's own."""

from bench.conformance.outcome import Outcome
from bench.conformance.specifications import specifications
from bench.conformance.stand import Stand
from bench.conformance.suite import check_all

__all__ = ["Outcome", "Stand", "check_all", "specifications"]
