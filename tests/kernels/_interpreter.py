"""Kernel modules to test: the GPU's where there is one, and copies that Triton's interpreter runs.

The interpreter's switch (TRITON_INTERPRET) holds for a whole process, and other tests of the session
import Triton code that has to stay compiled (SGLang's). So the switch stays off: a kernel module is
executed once more under another name, and the kernels of that copy are wrapped as the switch would have
done. Triton's own library (`tl.sum`, `tl.max`) is interpreted only while such a kernel runs.

bf16 needs mending (triton 3.7.1, 3.8.0): the interpreter keeps bf16 as the bits of a uint16, `tl.dot`
multiplies these as integers, and a cast from fp32 cuts off where a GPU rounds to nearest, ties to even.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import triton.experimental.gluon  # noqa: F401  (a launch imports it, which fails with the library interpreted)
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle, _patch_lang
from triton.runtime.jit import JITFunction

KERNELS = Path(__file__).parents[2] / "bench" / "kernels"
WHERE = [
    pytest.param("cpu", id="interpreter"),
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]


def _wide(x: TensorHandle) -> TensorHandle:
    """bf16 as fp32, exactly."""
    if x.dtype.scalar != tl.bfloat16:
        return x
    return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _to_bf16(x: TensorHandle) -> TensorHandle:
    """Finite fp32 rounded to bf16, to nearest, ties to even."""
    bits = np.ascontiguousarray(x.data, np.float32).view(np.uint32)
    return TensorHandle(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16), tl.bfloat16)


def _cast(plain: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    def cast(self: InterpreterBuilder, x: TensorHandle, to: Any) -> TensorHandle:
        pair = x.dtype.scalar, to.scalar
        if pair == (tl.bfloat16, tl.float32):
            return _wide(x)
        return _to_bf16(x) if pair == (tl.float32, tl.bfloat16) else plain(self, x, to)

    return cast


def _dot(plain: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    return lambda self, a, b, *rest: plain(self, _wide(a), _wide(b), *rest)


class _Interpreted(InterpretedFunction):  # type: ignore[misc]  # triton is untyped
    """A kernel, or a function that kernels call; what it patches in Triton is put back behind it."""

    def run(self, *args: Any, **kwargs: Any) -> None:
        with _interpreting():
            super().run(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Called from a kernel, so everything is patched; the original would patch and not put back.
        return self.rewrite()(*args, **kwargs)


@contextmanager
def _interpreting() -> Iterator[None]:
    core = _patch_lang(tl.standard.sum.fn)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for owner in (tl, tl.standard):
                for name, value in list(vars(owner).items()):
                    # Combining functions (_sum_combine) stay: the interpreter knows them by identity.
                    if isinstance(value, JITFunction) and not name.startswith("_"):
                        patch.setattr(owner, name, _Interpreted(value.fn))
            patch.setattr(InterpreterBuilder, "cast_impl", _cast(InterpreterBuilder.cast_impl))
            patch.setattr(InterpreterBuilder, "create_dot", _dot(InterpreterBuilder.create_dot))
            yield
    finally:
        core.restore()


def interpreted(name: str, path: Path | None = None) -> ModuleType:
    """A copy of the kernel module `name`, from `path` if given, for tensors on the CPU."""
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", path or KERNELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for key, value in list(vars(module).items()):
        if isinstance(value, JITFunction):
            setattr(module, key, _Interpreted(value.fn))
    return module


def faulty(name: str, old: str, new: str, folder: Path) -> ModuleType:
    """An interpreted copy with a planted fault: its only `old` replaced by `new`."""
    text = (KERNELS / f"{name}.py").read_text()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {name}"
    path = folder / f"{name}_faulty.py"
    path.write_text(text.replace(old, new))
    return interpreted(name, path)


@contextmanager
def unwritten_is_nan() -> Iterator[None]:
    """New memory holds NaN, not what lay there before: else what a fault leaves unwritten may be right."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@cache
def kernels(name: str, where: str) -> ModuleType:
    """The kernel module for tensors on the device `where`."""
    return interpreted(name) if where == "cpu" else importlib.import_module(f"bench.kernels.{name}")
