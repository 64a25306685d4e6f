"""A local Hugging Face checkpoint folder: whether it is whole, and the hash that names its weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open

from bench.assets import cache, hashes
from bench.assets.supported import SUPPORTED, check_folder
from bench.errors import UserError

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_SHORT = ("header too small", "invalid header length", "incomplete metadata")
"""What safetensors says of a file that ends before its header or its tensors do."""


def check(folder: Path) -> list[Path]:
    """The weight files of a checkpoint folder, in order of name.

    Raises `UserError` when it lacks its configuration, weights, a shard its index lists, or tokenizer, when
    a file of weights is cut short, and for a model that cannot be run (`bench.assets.supported`).
    """
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a model checkpoint: it has no config.json")
    check_folder(folder)
    weights = sorted(
        path for path in folder.glob("*.safetensors") if not path.name.startswith("consolidated")
    )
    weights = weights or sorted(folder.glob("pytorch_model*.bin"))
    if not weights:
        raise UserError(f"{folder} is not a whole checkpoint: it has no weights (*.safetensors)")
    suffix = weights[0].suffix
    for index in folder.glob(f"*{suffix}.index.json"):
        shards = _shards(index)
        if missing := sorted(shards - {path.name for path in weights}):
            raise UserError(
                f"{folder} is not a whole checkpoint: {index.name} lists {missing[0]}, which is missing"
            )
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise UserError(f"{folder} is not a whole checkpoint: it has no tokenizer ({', '.join(_TOKENIZERS)})")
    for path in weights:
        _check_whole(path)
    return weights


def _shards(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{index} is no index of weights; fetch the checkpoint again") from error


def _check_whole(path: Path) -> None:
    """Raise `UserError` where a file of weights ends before its tensors do. Reads its header alone."""
    with path.open("rb") as file:
        begins = file.read(40)
    if begins.startswith(b"version https://git-lfs"):
        raise UserError(f"{path} is a Git LFS pointer, not the weights; run git lfs pull")
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="np") as opened:
                names = opened.keys()
        except SafetensorError as error:
            if any(kind in str(error) for kind in _SHORT):
                raise UserError(f"{path} is cut short; fetch it again") from error
            raise UserError(f"{path} is no readable safetensors file ({error}); fetch it again") from error
        if any(name.endswith((".qweight", ".weight_packed")) for name in names):
            raise UserError(f"{path}: the checkpoint is quantised; {SUPPORTED}")
    # PyTorch's own format is a zip archive, whose directory comes last; files before version 1.6 are none.
    elif not begins or (begins.startswith(b"PK") and not zipfile.is_zipfile(path)):
        raise UserError(f"{path} is cut short; fetch it again")


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
