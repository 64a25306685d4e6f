"""What the engine takes from SGLang, imported late: importing SGLang takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.benchmark import one_batch
from sglang.benchmark.one_batch import TreeCacheNamespace, get_schedule
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed import bootstrap
from sglang.srt.entrypoints.engine import _set_envs_and_config as set_envs_and_config
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.layer_boundary.residual import batch as residual_batch
from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.runtime_context import get_model
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import PortArgs, ServerArgs
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

__all__ = [
    "ForwardBatch",
    "ForwardContext",
    "ForwardMode",
    "ModelConfig",
    "ModelRunner",
    "PortArgs",
    "Req",
    "RowsBackend",
    "SamplingParams",
    "ScheduleBatch",
    "ServerArgs",
    "SpeculativeAlgorithm",
    "TreeCacheNamespace",
    "UnquantizedLinearMethod",
    "bootstrap",
    "forward_context",
    "get_model",
    "get_schedule",
    "one_batch",
    "residual_batch",
    "resolving_view",
    "set_envs_and_config",
]


class RowsBackend(AttentionBackend):  # type: ignore[misc]
    """An SGLang attention backend that hands every extend call to a function of ours."""

    def __init__(self, model_runner: Any, attend: Callable[..., Any]) -> None:
        super().__init__()
        self.token_to_kv_pool = model_runner.token_to_kv_pool
        self.req_to_token_pool = model_runner.req_to_token_pool
        self.attend = attend

    def forward_extend(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True, **_: Any
    ) -> Any:
        """The attention of the rows at hand; `layer` is SGLang's RadixAttention module."""
        return self.attend(layer, q, k, v)

    def forward_decode(
        self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True, **_: Any
    ) -> Any:
        """One row a request."""
        return self.attend(layer, q, k, v)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Nothing to prepare: `attend` knows its rows."""
