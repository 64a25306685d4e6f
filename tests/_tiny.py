"""Tiny random-weight checkpoints of the architectures the engine has to handle."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests._tokenizer import tiny_tokenizer

SHAPE = {
    "vocab_size": 404,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "initializer_range": 0.25,  # large, so that stale caches give clearly other logits
}
LLAMA31 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ARCHITECTURES = ("llama", "mistral", "qwen3", "llama31")


def _model(architecture: str) -> PreTrainedModel:
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=16))
    if architecture == "mistral":
        return MistralForCausalLM(MistralConfig(**SHAPE, head_dim=32, sliding_window=None))
    if architecture == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16))
    return LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=16, rope_parameters=LLAMA31))


def tiny_checkpoint(architecture: str, folder: Path) -> Path:
    """Save a random model of an architecture with the tiny tokenizer; the same weights every time."""
    torch.manual_seed(7)
    model = _model(architecture).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:  # not all ones: a norm that is skipped must show
                weight.copy_(torch.rand_like(weight) + 0.5)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
