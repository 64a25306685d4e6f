"""Experiments: one YAML a figure, with profiles from three minutes on a laptop to the paper's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench.bandwidth import Bandwidth
from bench.errors import UserError

_HERE = Path(__file__).resolve().parent


class Task(BaseModel):
    """A dataset task with its options: "ruler/mq", or {name: longbench/musique, options: {...}}."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    options: dict[str, Any] = {}


class Sweep(BaseModel):
    """The resolved configuration of a run."""

    model_config = ConfigDict(extra="forbid")

    experiment: str
    profile: str
    about: str
    models: list[str] = Field(min_length=1)
    datasets: list[Task] = Field(min_length=1)
    methods: list[str] = Field(min_length=1)
    rho: list[float] = Field(min_length=1)
    requests: int = Field(ge=1)
    chunks: int = Field(ge=1)
    chunk_tokens: int = Field(ge=1)
    seed: int = 0
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    store: Literal["memory", "disk"] = "memory"
    chunk_prefix: Literal["none", "bos", "system"] = "none"
    warmup: int = Field(default=1, ge=0)
    calibration: int = Field(default=256, ge=1)
    """Calibration requests of a localisation profile, at most, once a model (`bench.runners.profiles`)."""
    calibration_set: Task = Task(name="calibration")
    """What they are drawn from, which the run must not evaluate; the paper's are spans/squad, spans/newsqa
    and spans/natural_questions."""
    axis: Literal["rho", "bandwidth"] = "rho"
    """What the experiment's figure is drawn over; the other is one value."""
    bandwidth: list[str] = Field(default=["none"], min_length=1)
    """Throttles of the chunk store (`bench.bandwidth`)."""
    throttle: Literal["bucket", "kernel"] = "bucket"
    """Who slows reads: a token bucket of ours, or the kernel (cgroup v2, io.max; disk tier)."""
    store_limit_gb: float | None = Field(default=None, gt=0)
    """Size of the disk tier; beyond it the entries least recently used go."""
    read_latency_ms: float = Field(default=0.0, ge=0)
    """Added to every read under a throttle of ours."""
    overlap: bool = True
    """Load layers ahead of their use; without it each is loaded where it is needed."""
    shown: int = Field(default=4, ge=0)
    """The first requests of each model and dataset: their prompts, selections and timelines are kept."""

    @field_validator("datasets", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return [{"name": item} if isinstance(item, str) else item for item in value]

    @field_validator("calibration_set", mode="before")
    @classmethod
    def _one_named(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("rho")
    @classmethod
    def _ratios(cls, value: list[float]) -> list[float]:
        for rho in value:
            if not 0 <= rho <= 1:
                raise ValueError(f"rho is a share of the context, from 0 to 1, not {rho:g}")
        return sorted(set(value))

    @field_validator("bandwidth")
    @classmethod
    def _bandwidths(cls, value: list[str]) -> list[str]:
        for text in value:
            Bandwidth.of(text)
        return list(dict.fromkeys(value))

    @model_validator(mode="after")
    def _one_axis(self) -> Sweep:
        if self.axis != "bandwidth" and len(self.bandwidth) > 1:
            raise ValueError(f"{self.experiment} is drawn over rho and takes one bandwidth; fig13 sweeps it")
        if self.axis != "rho" and len(self.rho) > 1:
            raise ValueError(f"{self.experiment} is drawn over {self.axis} and takes one rho")
        if self.throttle == "kernel" and (self.store != "disk" or self.read_latency_ms):
            raise ValueError("the kernel's throttle slows the disk tier (--store disk), and adds no latency")
        return self


def known() -> list[str]:
    """Names of the experiments."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def profiles(name: str) -> list[str]:
    """Names of an experiment's profiles."""
    return list(_read(name)["profiles"])


def _read(name: str) -> dict[str, Any]:
    if name not in known():
        raise UserError(f"unknown experiment {name!r}; known: {', '.join(known())}")
    loaded: dict[str, Any] = yaml.safe_load((_HERE / f"{name}.yaml").read_text())
    return loaded


def resolve(name: str, profile: str, **overrides: Any) -> Sweep:
    """An experiment's profile with what the command line overrides (None = not given).

    Raises `UserError` for unknown names and impossible values.
    """
    document = _read(name)
    if profile not in document["profiles"]:
        raise UserError(f"unknown profile {profile!r} of {name}; known: {', '.join(document['profiles'])}")
    merged = {
        **document.get("common", {}),
        **document["profiles"][profile],
        **{key: value for key, value in overrides.items() if value is not None},
    }
    try:
        return Sweep(experiment=name, profile=profile, **merged)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])).replace("_", "-")
        what = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{where}: {what}" if where else what) from error
