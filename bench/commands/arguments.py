"""What several commands share: lists and numbers as arguments, the last line."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.assets.cache import try_folder
from bench.errors import UserError


def ratios(text: str) -> list[float]:
    """Numbers from 0 to 1, separated by commas. Raises `UserError`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--rho {text!r}: write numbers from 0 to 1, separated by commas") from None


def names(text: str) -> list[str]:
    """Split at commas outside brackets: "epic,qcfuse[layers=1,anchor_ratio=0.2]"."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def check_folder(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be written before anything is measured or read. Raises `UserError`."""
    try:
        try_folder(folder)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; choose another folder with {option}") from error


def last_line(page: Path, console: Console) -> None:
    """Print the page's path: what a run or a report ends with."""
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)
