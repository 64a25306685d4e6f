"""Reads a W&B offline run back without W&B's server: its file is a LevelDB log of protobuf records.

32 KiB blocks; each fragment has crc32c u32, length u16, type u8; before them a 7-byte header.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2 as pb

BLOCK, HEADER, FULL, FIRST, MIDDLE, LAST = 32768, 7, 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    """The file's records; a torn last one is left out."""
    data = path.read_bytes()
    ident, magic, _version = struct.unpack("<4sHB", data[:7])
    assert (ident, magic) == (b":W&B", 0xBEE1)
    at, parts = 7, b""
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        _crc, length, kind = struct.unpack("<IHB", data[at : at + HEADER])
        body = data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if len(body) < length:
            return
        parts = body if kind in (FULL, FIRST) else parts + body
        if kind in (FULL, LAST):
            record = pb.Record()
            record.ParseFromString(parts)
            yield record


def load(folder: Path) -> dict[str, Any]:
    """Id, name, group, job type, config, history, summary, artifacts and kinds of records of one run."""
    out: dict[str, Any] = {"config": {}, "history": [], "summary": {}, "artifacts": [], "kinds": set()}
    (path,) = folder.glob("*.wandb")
    for record in records(path):
        kind = record.WhichOneof("record_type")
        out["kinds"].add(kind)
        if kind == "run":
            out["id"], out["name"] = record.run.run_id, record.run.display_name
            out["group"], out["job_type"] = record.run.run_group, record.run.job_type
            out["project"] = record.run.project
            out["config"] |= _values(record.run.config.update)
        elif kind == "config":
            out["config"] |= _values(record.config.update)
        elif kind == "history":
            out["history"].append(_values(record.history.item))
        elif kind == "summary":
            out["summary"] |= _values(record.summary.update)
        elif kind == "artifact":
            out["artifacts"].append(record.artifact.name)
    return out


def _values(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
