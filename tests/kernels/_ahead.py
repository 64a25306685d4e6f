"""Compile ahead of time what a launcher would launch, for a GPU that is not there, and read what it needs.

A launcher runs on tensors without storage (the meta device) while its launches are recorded: kernel,
arguments, block sizes. Each is then specialised and compiled as Triton does at a launch, so nothing
about a kernel is said twice. Spills are read from the log of the very `ptxas` run that made the code.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

SHARED = {80: 163, 89: 99, 90: 227, 100: 227, 120: 99}
"""KiB of shared memory that one block of threads may take, by compute capability (CUDA C++ guide)."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def key(self, capability: int) -> str:
        """Equal for launches that run the same code."""
        _, signature, constants, attributes, options = self._specialised(capability)
        return repr((self.kernel.__name__, signature, constants, attributes, options))

    def _specialised(self, capability: int) -> tuple[Any, ...]:
        backend = make_backend(GPUTarget("cuda", capability, 32))
        kwargs = {**self.kwargs, "debug": False, "instrumentation_mode": ""}
        bind = create_function_from_signature(self.kernel.signature, self.kernel.params, backend)
        bound, specialization, rest = bind(*self.args, **kwargs)
        options, *source = self.kernel._pack_args(backend, kwargs, bound, specialization, rest)
        return backend, *source, options


@dataclass(frozen=True)
class Resources:
    """What the compiler reports for one kernel, in bytes but for the registers of a thread."""

    spills: int
    stack: int
    registers: int
    shared: int


@contextmanager
def recording() -> Iterator[list[Launch]]:
    """The launches made inside, none of which runs."""
    launches: list[Launch] = []

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        assert all(int(extent) > 0 for extent in grid)
        launches.append(Launch(kernel, args, kwargs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", run)
        yield launches


def compiled(launch: Launch, capability: int) -> Resources:
    """Compile for a compute capability with the `ptxas` that Triton carries."""
    _, signature, constants, attributes, options = launch._specialised(capability)
    source = ASTSource(launch.kernel, signature, constants, attributes)
    log = io.StringIO()
    knobs = triton.knobs
    with tempfile.TemporaryDirectory() as cache, knobs.nvidia.scope(), knobs.cache.scope():
        knobs.nvidia.dump_ptxas_log = True
        knobs.cache.dir = cache  # an empty one: cached code comes without a log
        with redirect_stdout(log):
            kernel = triton.compile(
                source, target=GPUTarget("cuda", capability, 32), options=options.__dict__
            )  # fmt: skip
    stack, stores, loads = _numbers(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    (registers,) = _numbers(r"Used (\d+) registers", log)
    return Resources(stores + loads, stack, registers, kernel.metadata.shared)


def _numbers(pattern: str, log: io.StringIO) -> list[int]:
    found = re.findall(pattern, log.getvalue())
    assert len(found) == 1, log.getvalue()
    return [int(n) for n in (found[0] if isinstance(found[0], tuple) else found)]
