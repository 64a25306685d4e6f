"""Linear layers on a CPU with weights packed once for oneDNN, as SGLang itself does on CPUs with AMX.

Without it every product packs its weight anew, which weighs most where rows are few: decoding, and
selective recomputation at a small rho. Full prefill runs on the same layers and gains as well.
"""

from __future__ import annotations

from typing import Any

import torch


class PackedLinear:
    """Stands in for SGLang's unquantized method of one layer (sglang/srt/layers/quantization/unquant.py)."""

    def __init__(self, layer: Any) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x [..., in] times the layer's weight, [..., out]."""
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")
        return out


def pack_linears(layers: torch.nn.Module, unquantized: type) -> int:
    """Pack every unquantized linear layer inside; its plain weight is freed. Returns how many there were.

    `unquantized` is SGLang's class of such layers' method; where oneDNN is missing nothing is packed.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return 0
    found = [m for m in layers.modules() if isinstance(getattr(m, "quant_method", None), unquantized)]
    for module in found:
        module.quant_method = PackedLinear(module)  # type: ignore[assignment]
        module.weight.data = module.weight.data.new_empty(0)  # type: ignore[operator]
    return len(found)
