"""YAML files of experiments, read strictly: what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bench.errors import UserError


class _Loader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; here they are an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


def read_mapping(path: Path) -> dict[str, Any]:
    """The settings of an experiment's file. Raises `UserError` for what cannot be read as such."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)
    except OSError as error:
        raise UserError(f"experiment file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: write settings, such as `rho: [0.3]`, one a line")
    if "profiles" in content:
        _check_profiles(content, path)
    return content


def _check_profiles(content: dict[Any, Any], path: Path) -> None:
    beside = sorted(str(key) for key in set(content) - {"common", "profiles"})
    if beside:
        raise UserError(f"{path}: {beside[0]} stands beside profiles; move it into common or a profile")
    blocks = {"common": content.get("common", {}), "profiles": content["profiles"]}
    if isinstance(blocks["profiles"], dict):
        blocks |= {f"profiles.{name}": settings for name, settings in blocks["profiles"].items()}
    for key, settings in blocks.items():
        if not isinstance(settings, dict) or (key == "profiles" and not settings):
            raise UserError(f"{path}: {key}: write settings, such as `rho: [0.3]`, one a line")
