"""What the Triton kernels' launches depend on: the GPU, the head size, the layout of their tensors."""

from __future__ import annotations

import torch

LOG2E = 1.4426950408889634
"""exp(x) is exp2(LOG2E * x); exp2 is one instruction on a GPU."""


def capability(device: torch.device) -> int:
    """Compute capability of a CUDA device as one number, 90 for 9.0; 80 elsewhere (the interpreter)."""
    if device.type != "cuda":
        return 80
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def padded(size: int) -> int:
    """The power of two, at least 16, that holds `size` lanes: what a tile's width has to be."""
    return max(16, 1 << (size - 1).bit_length())


def unit_stride(x: torch.Tensor) -> torch.Tensor:
    """x itself where its last dimension is contiguous, as the attention kernels read it; else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def precision(dtype: torch.dtype) -> str:
    """How a product of two tiles is computed: fp32 is the reference here and is never cut to TF32."""
    return "ieee" if dtype == torch.float32 else "tf32"
