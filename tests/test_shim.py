"""The CPU shim: a stand-in that never hides the real thing. Runs its source in a child interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SHIM = Path(__file__).parents[1] / "requirements" / "cpu_shim"

pytestmark = pytest.mark.skipif(
    any(getattr(torch.version, kind, None) is not None for kind in ("cuda", "hip", "xpu")),
    reason="the shim does nothing under a GPU build of torch",
)


def child(code: str) -> str:
    """What `code` prints in a fresh interpreter that has the shim's source first on its path."""
    start = f"import sys; sys.path.insert(0, {str(SHIM)!r}); import qcbench_cpu_shim as shim\n"
    # -S keeps an installed copy's .pth out, so that the source here is what is tested.
    site = next(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{start}sys.path.append({site!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_start_imports_no_torch() -> None:
    assert child("print('torch' in sys.modules, 'typing' in sys.modules)") == "False False"


def test_sgl_kernel_stand_in() -> None:
    printed = child("""
import torch, sgl_kernel
from sgl_kernel import silu_and_mul
try:
    silu_and_mul(1)
except NotImplementedError as error:
    print(error)
table = torch.zeros(2, 4, dtype=torch.int32)
rows, start, end = torch.tensor([1, 0]), torch.tensor([1, 0]), torch.tensor([3, 1])
sgl_kernel.assign_req_to_token_pool_cpu(rows, table, start, end, torch.tensor([7, 8, 9]), 4)
print(table.tolist())
try:
    import sgl_kernel.flash_attn
except ModuleNotFoundError as error:
    print(error)
""")
    assert printed.splitlines() == [
        "sgl_kernel.silu_and_mul has no CPU version",
        "[[9, 0, 0, 0], [0, 7, 8, 0]]",
        "No module named 'sgl_kernel.flash_attn'",
    ]


def test_an_installed_sgl_kernel_wins(tmp_path: Path) -> None:
    (tmp_path / "sgl_kernel.py").write_text("__version__ = 'real'\n")
    code = f"sys.path.append({str(tmp_path)!r}); import sgl_kernel; print(sgl_kernel.__version__)"
    assert child(code) == "real"


def test_nothing_under_a_gpu_build() -> None:
    assert child("""
import torch
torch.version.cuda = "13.0"
shim.declare_torchvision_operators = lambda: print("declared")
print(shim.TorchvisionOperators.find_spec("torchvision._meta_registrations"))
try:
    import sgl_kernel
except ModuleNotFoundError as error:
    print(error)
""").splitlines() == ["None", "No module named 'sgl_kernel'"]


def test_operators_are_declared_only_when_absent() -> None:
    printed = child("""
import torch
real = torch.library.Library("torchvision", "DEF")
real.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
print(shim.declare_torchvision_operators(), shim.declare_torchvision_operators())
""")
    assert printed == "['qnms'] []"


def test_torchvision_imports_and_hooks_are_added_once() -> None:
    pytest.importorskip("torchvision")
    printed = child("""
shim.install()
print(sum(getattr(hook, "__module__", "") == "qcbench_cpu_shim" for hook in sys.meta_path))
import torch, torchvision
print(hasattr(torch.ops.torchvision, "nms"))
""")
    assert printed.splitlines() == ["2", "True"]
