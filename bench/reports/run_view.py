"""A run as the page sees it: its folder, a name no other run on the page has, and what is computed once."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bench.figures.style import full_label, variant_label
from bench.results.conditions import instruction_cached
from bench.results.points import PREFILLS, with_variants
from bench.results.run_folder import RunFolder


@dataclass(frozen=True)
class RunView:
    """A run, its `name` on the page and the files its figures were written to."""

    folder: RunFolder
    name: str
    files: Sequence[Path] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """The rows."""
        return self.folder.frame

    @property
    def info(self) -> dict[str, Any]:
        """The content of `run.json`."""
        return self.folder.info

    @property
    def summary(self) -> pd.DataFrame:
        """`bench.results.summary.summarise` of the rows."""
        return self.folder.summary

    @cached_property
    def labels(self) -> dict[tuple[str, str], str]:
        """By (method, params): the method's label, with those parameters that tell its curves apart.

        Never with rho or bandwidth: the page shows these beside it.
        """
        named = with_variants(self.frame.assign(bandwidth="none")).drop_duplicates(["method", "params"])
        cached = instruction_cached(self.info)
        return {
            (str(row["method"]), str(row["params"])): full_label(
                variant_label(str(row["method"]), str(row["variant"])), cached
            )
            for row in named.to_dict("records")
        }

    @property
    def sweeps_bandwidth(self) -> bool:
        """Whether some method was measured at several bandwidths."""
        others = self.frame[~self.frame["method"].isin(PREFILLS)]
        return bool(len(others)) and bool(others.groupby("method")["bandwidth"].nunique().max() > 1)

    @property
    def predicted(self) -> bool:
        """Whether some row comes from a model of the costs and not from a clock."""
        return bool(self.frame["predicted"].eq(True).any())

    @property
    def commands(self) -> list[str]:
        """The commands that made the run, one for each session, as typed; empty where it did not say."""
        sessions = self.info.get("sessions")
        found = [
            "qcbench " + shlex.join(map(str, session["command"]))
            for session in (sessions if isinstance(sessions, list) else [])
            if isinstance(session, dict) and isinstance(session.get("command"), list)
        ]
        return list(dict.fromkeys(found))
