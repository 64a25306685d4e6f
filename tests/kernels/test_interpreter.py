"""The interpreter's mending is right, and nothing of it stays behind."""

from __future__ import annotations

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import JITFunction

from bench.kernels import triton_attention_mass
from tests.kernels._ahead import compiled, recording
from tests.kernels._interpreter import _to_bf16, _wide, kernels


def test_bf16_is_rounded_as_torch_rounds_it() -> None:
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 0.0, 2.0**-130])
    x = torch.cat((torch.randn(5000) * 10 ** torch.linspace(-30, 30, 5000), ties))
    rounded = _to_bf16(TensorHandle(x.numpy(), tl.float32))
    expected = x.to(torch.bfloat16)
    assert np.array_equal(rounded.data.view(np.int16), expected.view(torch.int16).numpy())
    assert np.array_equal(_wide(rounded).data, expected.float().numpy())


def test_triton_is_as_before_once_a_kernel_was_interpreted() -> None:
    q = torch.randn(3, 2, 64)
    kernels("triton_attention_mass", "cpu").attention_mass(q, q, q, 1.0)
    left = [
        name
        for owner in (tl, tl.core, tl.math, tl.tensor, tl.dtype)
        for name, value in vars(owner).items()
        if getattr(value, "__module__", None) in ("triton.runtime.interpreter", "tests.kernels._interpreter")
    ]
    assert left == []
    assert isinstance(tl.sum, JITFunction)
    assert isinstance(triton_attention_mass._mass, JITFunction)
    with recording() as made:
        triton_attention_mass.attention_mass(*(x.to("meta") for x in (q, q, q)), 1.0)
    assert compiled(made[0], 80).registers > 0
