"""Tiny random-weight checkpoints of the architectures the engine has to handle."""

from __future__ import annotations

from pathlib import Path

from bench.conformance.tiny import ARCHITECTURES, tiny_model
from tests._tokenizer import tiny_tokenizer

__all__ = ["ARCHITECTURES", "tiny_checkpoint"]


def tiny_checkpoint(architecture: str, folder: Path) -> Path:
    """Save a random model of an architecture with the tiny tokenizer; the same weights every time."""
    tiny_model(architecture, folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
