"""Import hooks that let SGLang 0.5.23 and torchvision 0.28 import on a machine without a GPU build of torch.

`qcbench_cpu_shim.pth` imports this module at every interpreter start, spawned children included, so it
imports nothing but `sys` there. Two things happen later, each only when it is needed:

* torchvision's wheel is built against a CUDA torch. When its operators could not be loaded, `nms` and
  `qnms` are declared (not implemented) just before torchvision registers shapes for them.
* `sgl_kernel`, a CUDA-only wheel that SGLang imports unconditionally, resolves to `_sgl_kernel.py` here.
  The finder is the last one asked, so an installed `sgl_kernel` always wins.

With a GPU build of torch (CUDA, ROCm or XPU) neither hook does anything: a missing `sgl_kernel` stays
missing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` would cost more than this whole module
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_OPERATORS = ("nms", "qnms")
_kept_alive: list[object] = []  # a torch Library undoes its declarations when it is collected


def torch_has_gpu_build() -> bool:
    """Whether the installed torch was built for CUDA, ROCm or XPU (imports torch)."""
    import torch

    return any(getattr(torch.version, kind, None) is not None for kind in ("cuda", "hip", "xpu"))


def declare_torchvision_operators() -> list[str]:
    """Declare the torchvision operators that do not exist yet and return their names."""
    import torch

    missing = [name for name in _OPERATORS if not hasattr(torch.ops.torchvision, name)]
    if missing:
        make: Any = torch.library.Library  # torch leaves it untyped
        library = make("torchvision", "FRAGMENT")
        for name in missing:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept_alive.append(library)
    return missing


class TorchvisionOperators:
    """Declares absent operators when torchvision has tried to load its own and is about to need them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Never finds anything: the import of torchvision's registrations is only the moment to act."""
        if name == "torchvision._meta_registrations" and not torch_has_gpu_build():
            declare_torchvision_operators()
        return None


class SglKernelStandIn:
    """Finds the stand-in for `sgl_kernel` when nothing else did."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of `_sgl_kernel.py`, or None for other names and under a GPU build of torch."""
        if name != "sgl_kernel" or torch_has_gpu_build():
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, __file__.replace("__init__.py", "_sgl_kernel.py"))


def install() -> None:
    """Add both hooks to `sys.meta_path`, once."""
    if TorchvisionOperators not in sys.meta_path:
        sys.meta_path.insert(0, TorchvisionOperators)
    if SglKernelStandIn not in sys.meta_path:
        sys.meta_path.append(SglKernelStandIn)


install()
