"""What a check says: ok, failed, skipped, or a known and named departure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "skipped", "known"]


@dataclass(frozen=True)
class Outcome:
    """One check of one method; `why` is empty where it is ok."""

    check: str
    status: Status
    why: str = ""
    stopped: bool = False
    """An error of the method ended the check before it could tell."""

    def __str__(self) -> str:
        status = "FAILED" if self.status == "failed" else self.status
        return f"{status:<8} {self.check}" + (f": {self.why}" if self.why else "")


class Broken(Exception):
    """A check found a rule broken: what broke, and the part of the method to look at."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.where = where


class Skipped(Exception):
    """A check does not apply to this method, or the method skips its request."""


class Known(Exception):
    """A departure that the method declares: reported under its name, neither ok nor failed."""
