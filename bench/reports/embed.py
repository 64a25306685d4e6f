"""What stands inside the page and not beside it: data, pictures, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

from markupsafe import Markup

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def json_block(content: Any) -> Markup:
    """`content` as JSON that may stand inside a <script> element: no "<", ">", "&", U+2028 or U+2029.

    NaN becomes null. Raises `TypeError` for what JSON cannot hold.
    """
    text = json.dumps(_finite(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return Markup(text)  # nothing is left in it that HTML could read as markup


def data_uri(path: Path) -> str:
    """A PNG or SVG file as a data: address."""
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy under which this style and this script run, pictures come as data: only,
    and nothing is fetched, framed or sent."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
