"""NAME[option=value,...]: how methods and datasets are written with options, and written back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from bench.errors import UserError


def parse(written: str, what: str) -> tuple[str, dict[str, Any]]:
    """Read "name[a=1,b=[2,3]]" as the name and its options, each value as YAML.

    `what` ("method", "dataset") begins the message. Raises `UserError` where the text is not of this form, an
    option is there twice or a value is no YAML.
    """
    match = re.fullmatch(r"([^\[\]]+)(?:\[(.*)\])?", written.strip())
    if match is None:
        raise UserError(f"{what} {written!r}: write NAME, NAME[param=value,...] or FILE.py")
    options: dict[str, Any] = {}
    for pair in re.split(r",(?=\s*\w+=)", match[2]) if match[2] else []:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals:
            raise UserError(f"{what} {written!r}: write parameters as name=value, separated by commas")
        if key in options:
            raise UserError(f"{what} {written!r}: {key} is there twice")
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"{what} {written!r}: {key}: cannot read {value!r}") from error
    return match[1].strip(), options


def canonical(name: str, options: Mapping[str, Any]) -> str:
    """The one way to write a name with options: sorted; `parse` reads it again."""
    inside = ",".join(f"{key}={_value(options[key])}" for key in sorted(options))
    return f"{name}[{inside}]" if options else name


def _value(value: Any) -> str:
    """A plain word as it is, other text in double quotes, anything else as JSON (a part of YAML)."""
    if not isinstance(value, str):
        return json.dumps(value, default=str, ensure_ascii=False)
    if re.fullmatch(r"[\w./-]+", value, re.ASCII) and yaml.safe_load(value) == value:
        return value
    return str(yaml.safe_dump(value, default_style='"', width=math.inf)).strip()
