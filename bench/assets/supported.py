"""What a checkpoint's own files say about whether cache fusion can run it, before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import UserError

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""`model_type` and the one architecture of it that the engine drives."""
ROPE = ("default", "linear", "llama3", "yarn")
"""Scalings whose rotation depends on the position alone; dynamic ones depend on the prompt's length too."""
SUPPORTED = (
    "supported are unquantised Llama, Mistral, Qwen2 and Qwen3 models without sliding windows, "
    "with no RoPE scaling or linear, llama3 or yarn"
)
_QUANTISED = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
"""Files in which AutoGPTQ, AutoAWQ and ModelOpt keep what others keep in config.json."""


def check_folder(folder: Path) -> None:
    """Raise `UserError` where config.json, or a file beside it, shows a model that cannot be run."""
    config = read_config(folder / "config.json")
    for name in _QUANTISED:
        if (folder / name).is_file():
            raise UserError(f"{folder}: the checkpoint is quantised ({name}); {SUPPORTED}")
    check_config(config, str(folder))


def read_config(path: Path) -> dict[str, Any]:
    """config.json as a mapping. Raises `UserError` where it is none."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON; mend it, or give another model: {SUPPORTED}") from error
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no mapping; mend it, or give another model: {SUPPORTED}")
    return config


def check_config(config: Mapping[str, Any], where: str) -> None:
    """Raise `UserError`, in one line that names what is supported, for a configuration that is not.

    `config` is a Hugging Face config.json; `where` names the model in the message.
    """
    reason = _reason(config)
    if reason:
        raise UserError(f"{where}: {reason}; {SUPPORTED}")


def _reason(config: Mapping[str, Any]) -> str:
    kind, named = config.get("model_type"), config.get("architectures") or []
    said = ", ".join(map(str, named)) if isinstance(named, list) and named else kind
    if kind not in ARCHITECTURES or (named and named != [ARCHITECTURES[str(kind)]]):
        shown = ascii(str(said))[1:-1] if said else "that config.json leaves out"  # it may say anything
        return f"cache fusion cannot run the architecture {shown}"
    for name in ("quantization_config", "compression_config"):
        if config.get(name):
            return f"the checkpoint is quantised ({_method(config[name])})"
    return _sizes(config) or _window(config) or _rope(config) or _layers(config)


def _sizes(config: Mapping[str, Any]) -> str:
    for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"):
        value = config.get(name)
        if value is not None and (not isinstance(value, int) or value < 1):
            return f"config.json cannot be used (field {name!r} is {value!r}, not a whole number above 0)"
    return ""


def _method(quantisation: Any) -> str:
    named = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
    return str(named or "quantization_config")


def _window(config: Mapping[str, Any]) -> str:
    """Sliding windows in use, by the rules of transformers' Mistral, Qwen2 and Qwen3 configurations."""
    kinds = config.get("layer_types")
    other = sorted({str(k) for k in kinds} - {"full_attention"}) if isinstance(kinds, list) else []
    if other:
        return f"layers with {', '.join(other)} are in use"
    window, qwen = config.get("sliding_window"), str(config.get("model_type")).startswith("qwen")
    if not window or config.get("model_type") == "llama" or isinstance(kinds, list):
        return ""
    if qwen and not config.get("use_sliding_window"):
        return ""
    if qwen and _number(config.get("max_window_layers", 28)) >= _number(config.get("num_hidden_layers", 32)):
        return ""  # the layers below `max_window_layers` see everything, and there are no others
    if _number(window) >= _number(config.get("max_position_embeddings", 0)) > 0:
        return ""  # no prompt is longer than the window
    return f"a sliding window of {window} tokens is in use"


def _rope(config: Mapping[str, Any]) -> str:
    for name in ("rope_parameters", "rope_scaling"):
        scaling = config.get(name)
        if scaling is None:
            continue
        if not isinstance(scaling, dict):
            return f"{name} is no mapping"
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind not in ROPE:
            return f"RoPE scaling {kind} is in use"
    return ""


def _layers(config: Mapping[str, Any]) -> str:
    """What SGLang's layers of these models leave out or refuse."""
    act = config.get("hidden_act", "silu")
    if act != "silu":
        return f"SGLang runs these models with silu alone, not with hidden_act {act}"
    if config.get("mlp_bias"):
        return "SGLang leaves out the bias of the MLP (mlp_bias)"
    return ""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
