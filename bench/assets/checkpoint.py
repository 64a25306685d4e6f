"""A local Hugging Face checkpoint folder: whether it is whole, and the hash that names its weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from bench.assets import cache, hashes
from bench.errors import UserError

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


def check(folder: Path) -> list[Path]:
    """The weight files of a checkpoint folder, in order of name.

    Raises `UserError` when it lacks its configuration, weights, a shard its index lists, or tokenizer.
    """
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a model checkpoint: it has no config.json")
    weights = sorted(
        path for path in folder.glob("*.safetensors") if not path.name.startswith("consolidated")
    )
    weights = weights or sorted(folder.glob("pytorch_model*.bin"))
    if not weights:
        raise UserError(f"{folder} is not a whole checkpoint: it has no weights (*.safetensors)")
    for index in folder.glob("*.safetensors.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if missing := sorted(shards - {path.name for path in weights}):
            raise UserError(
                f"{folder} is not a whole checkpoint: {index.name} lists {missing[0]}, which is missing"
            )
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise UserError(f"{folder} is not a whole checkpoint: it has no tokenizer ({', '.join(_TOKENIZERS)})")
    return weights


def revision(weights: list[Path]) -> str:
    """The SHA-256 of a checkpoint's weights: the file's own, or that of the shards' names and hashes."""
    if len(weights) == 1:
        return remembered_sha256(weights[0])
    lines = "".join(f"{remembered_sha256(path)}  {path.name}\n" for path in weights)
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def remembered_sha256(path: Path) -> str:
    """The SHA-256 of a file, taken from the cache folder's notes when the file's stamp has not changed."""
    path = path.resolve()
    note = cache.root() / "hashes" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"
    # A missing or damaged note only means that the file is read again.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["stamp"] == hashes.stamp(path):
            return str(known["sha256"])
    stamp, digest = hashes.stamp(path), hashes.sha256(path)
    # A cache folder that cannot be written makes the next start slower, not wrong.
    with contextlib.suppress(OSError):
        cache.write_atomically(note, json.dumps({"path": str(path), "stamp": stamp, "sha256": digest}))
    return digest
