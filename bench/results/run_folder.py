"""A finished run as its reports see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class RunFolder:
    """The folder, its rows (one line a row) and the content of `run.json`."""

    path: Path
    frame: pd.DataFrame
    info: dict[str, Any]
    also: tuple[Path, ...] = ()
    """Folders of further rows in `frame`: their prompts, selections and timelines belong to it too."""
