"""Tiny random-weight models, made on the spot: what checks run on where nothing can be fetched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging

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


class Bytes:
    """A token a byte, behind three special tokens: all of a tokenizer that preparation asks for."""

    bos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return [0] * add_special_tokens + [3 + byte for byte in text.encode()]


@contextmanager
def silent() -> Iterator[None]:
    """No progress bars and no warnings of transformers meanwhile."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _model(architecture: str) -> Any:
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=16))
    if architecture == "mistral":
        return MistralForCausalLM(MistralConfig(**SHAPE, head_dim=32, sliding_window=None))
    if architecture == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16))
    return LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=16, rope_parameters=LLAMA31))


def tiny_model(architecture: str, folder: Path) -> Path:
    """Save a random fp32 model of an architecture, without a tokenizer; the same weights every time."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = _model(architecture).float()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "norm" in name:  # not all ones: a norm that is skipped must show
                    weight.copy_(torch.rand_like(weight) + 0.5)
    with silent():
        model.save_pretrained(folder)
    return folder
