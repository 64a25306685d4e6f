"""`bench/claims.yaml`: the claims as data, checked by pydantic."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.claims.measure import Measure
from bench.claims.panel import Panel
from bench.claims.registry import AnyMeasure

PATH = Path(__file__).resolve().parents[1] / "claims.yaml"

Comparison = Literal["at_least", "above", "at_most", "below", "between"]


UNSIZED = ("crosses_lower",)
"""Measures that are no mean over requests: nothing tells how many they need."""

_SIGNS = {"at_least": "≥", "above": ">", "at_most": "≤", "below": "<"}


class Requirements(BaseModel):
    """What rows must have before a claim is judged on them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: int = Field(default=10, ge=2)
    """Fewest requests of a model and dataset, measured under everything the claim compares."""
    requests_in_all: int = Field(default=10, ge=2)
    """Fewest over all of them."""
    chunks: int = Field(default=4, ge=1)
    """Fewest chunks a request."""
    chunk_tokens: int = Field(default=128, ge=1)
    """Fewest tokens a chunk."""
    shapes: int = Field(default=1, ge=1)
    """Fewest context shapes (chunks, tokens a chunk)."""
    models: tuple[str, ...] = ()
    """Patterns of a model's name without its owner; none: any model."""
    gpu: str | None = None
    """A word of the GPU's name; None: any machine."""

    def unmet(self, panel: Panel) -> str:
        """What a panel lacks, "" where it has everything; requests are counted elsewhere."""
        name, gpus, (chunks, tokens) = panel.model.rsplit("/", 1)[-1], _gpus(panel), panel.shape
        unmet = []
        if self.models and not any(fnmatchcase(name.lower(), pattern.lower()) for pattern in self.models):
            unmet.append(f"model: needs {' or '.join(self.models)}, the run had {name}")
        if self.gpu and not any(re.search(rf"\b{re.escape(self.gpu)}\b", gpu) for gpu in gpus):
            unmet.append(f"hardware: needs an {self.gpu}, the run had {', '.join(gpus) or 'no GPU'}")
        if chunks < self.chunks or tokens < self.chunk_tokens:
            wants = f"{self.chunks} chunks of {self.chunk_tokens} tokens or more"
            unmet.append(f"profile: needs {wants}, the run had {chunks} of {tokens}")
        return "; ".join(unmet)


class Premise(BaseModel):
    """What has to be true of the same rows before a claim can be judged on them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    measure: AnyMeasure
    comparison: Literal["at_least", "above"]
    expected: float
    instead: AnyMeasure | None = None
    """What is told in the claim's place where the premise fails."""

    def holds(self, value: float) -> bool:
        """Whether the measure's estimate is on the premise's side."""
        return value > self.expected if self.comparison == "above" else value >= self.expected


class Claim(BaseModel):
    """A statement of the paper, and the number over rows that it is held against."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$", max_length=26)
    """Fits its column on a terminal of 80 characters."""
    section: str
    claim: str
    """The statement, in our words."""
    measure: AnyMeasure
    expected: float | tuple[float, float]
    comparison: Comparison
    tolerance: float = Field(default=0.0, ge=0)
    """How far short of `expected` still counts; the threshold is `expected` less (at_most: plus) it."""
    effect: float | None = Field(default=None, gt=0)
    """The smallest effect worth telling, beyond `expected`: what rows must be able to show. A claim with a
    tolerance has it instead, taken wholly as not consumed."""
    premise: Premise | None = None
    weak: str = ""
    """Why its verdict is weak, whatever it is."""
    datasets: tuple[str, ...] = ()
    """Patterns of dataset names; none: all."""
    each: Literal["pooled", "shape"] = "pooled"
    """shape: in every context shape by itself; what counts is the worst."""
    experiments: tuple[str, ...] = Field(min_length=1)
    """Experiments that measure it; "" for one that does not exist yet. Rows of any run are judged."""
    requires: Requirements = Requirements()
    note: str = ""
    """What the expected value is, where it is not the paper's own number."""

    @model_validator(mode="after")
    def _fits(self) -> Claim:
        if isinstance(self.expected, tuple) != (self.comparison == "between"):
            raise ValueError("two expected numbers go with `between`, one with every other comparison")
        if self.tolerance and self.comparison not in ("at_least", "at_most"):
            raise ValueError("a tolerance goes with at_least or at_most")
        by_itself = bool(self.tolerance) or self.comparison == "between" or self.measure.kind in UNSIZED
        if by_itself == (self.effect is not None):
            raise ValueError("an effect goes with every claim that has neither tolerance nor range")
        return self

    @property
    def assumed(self) -> float | None:
        """The true value of which is asked whether the rows could have shown it; None where there is none.

        `expected`, no part of the tolerance consumed; without one, `expected` and the effect; of a range the
        middle, of quotients the geometric one.
        """
        if isinstance(self.expected, tuple):
            low, high = self.expected
            return sqrt(low * high) if self.measure.logarithmic else (low + high) / 2
        if self.effect is None:
            return self.expected if self.tolerance else None
        return self.expected + (self.effect if self.comparison in ("at_least", "above") else -self.effect)

    @property
    def threshold(self) -> tuple[float, float]:
        """The range in which the claim holds; its ends belong to it unless `above` or `below`."""
        infinite = float("inf")
        if isinstance(self.expected, tuple):
            return self.expected
        if self.comparison in ("at_least", "above"):
            return self.expected - self.tolerance, infinite
        return -infinite, self.expected + self.tolerance

    @property
    def expects(self) -> str:
        """The expected value in words."""
        low, high = (_short(self.measure, end) for end in self.threshold)
        if isinstance(self.expected, tuple):
            return f"{low} to {high}"
        text = f"{_SIGNS[self.comparison]} {_short(self.measure, self.expected)}"
        if not self.tolerance:
            return text
        return f"{text} ({low if self.comparison == 'at_least' else high} counts)"


class ClaimsFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    claims: tuple[Claim, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_id_each(self) -> ClaimsFile:
        ids = [claim.id for claim in self.claims]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"ids come twice: {', '.join(twice)}")
        return self


def _short(measure: Measure, value: float) -> str:
    """ "+0.000" as "0", "1.70x" as "1.7x"."""
    text = measure.text(value).removeprefix("+")
    return re.sub(r"(\.\d*?)0+(?=\D*$)", r"\1", text).replace(".x", "x").removesuffix(".")


@cache
def claims() -> tuple[Claim, ...]:
    """The claims, in the file's order."""
    return ClaimsFile.model_validate(yaml.safe_load(PATH.read_text(encoding="utf-8"))).claims


def _gpus(panel: Panel) -> list[str]:
    host = panel.info.get("host")
    gpus = host.get("gpus") if isinstance(host, dict) else None
    return [str(gpu) for gpu in gpus] if isinstance(gpus, list) else []
