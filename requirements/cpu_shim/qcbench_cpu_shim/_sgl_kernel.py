"""CPU stand-in for the CUDA-only `sgl_kernel` wheel, so that SGLang 0.5.23 imports without a GPU.

SGLang's CPU mode imports names from `sgl_kernel` unconditionally. Only the token-pool assignment has a
meaning here; every other name can be imported and raises `NotImplementedError` when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__version__ = "0+cpu"
__path__: list[str] = []  # a package without submodules, as far as `import sgl_kernel.x` is concerned


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write each request's new cache slots into its row of `req_to_token`, positions start to end.

    `out_cache_loc` holds the slots of all requests one after another: sum(end - start) of them.
    """
    done = 0
    rows, starts, ends = req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()
    for row, start, end in zip(rows, starts, ends, strict=True):
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[done : done + count].to(req_to_token.dtype)
        done += count


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU version")

    return missing
