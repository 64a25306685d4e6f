"""The first layers of a model as a checkpoint of its own: real weights in seconds."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bench.conformance.tiny import silent


def first_layers(path: Path, layers: int, folder: Path) -> Path:
    """Save the checkpoint at `path` with its first `layers` layers, fp32, and its tokenizer to `folder`."""
    config = AutoConfig.from_pretrained(path)
    config.num_hidden_layers = min(layers, config.num_hidden_layers)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    with silent():  # of the weights left out it would warn one by one
        model = AutoModelForCausalLM.from_pretrained(path, config=config, dtype=torch.float32)
        model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(path).save_pretrained(folder)
    return folder
