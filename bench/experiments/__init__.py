"""Experiments: one YAML a figure, with profiles from three minutes on a laptop to the paper's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bench.bandwidth import Bandwidth
from bench.errors import UserError
from bench.experiments.files import read_mapping
from bench.specification import canonical, parse

_HERE = Path(__file__).resolve().parent


class Task(BaseModel):
    """A dataset task with its options.

    Written "ruler/mq", "ruler/mq[tokens_to_generate=48]", or {name: longbench/musique, options: {...}}.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _in_brackets(cls, value: Any) -> Any:
        written = value if isinstance(value, str) else value.get("name") if isinstance(value, dict) else None
        if not isinstance(written, str):
            return value
        name, options = parse(written, "dataset")
        if isinstance(value, str):
            return {"name": name, "options": options}
        own = value.get("options", {})
        return value | {"name": name, "options": options | own if isinstance(own, dict) else own}

    @property
    def written(self) -> str:
        """Name and options, in the one way to write them."""
        return canonical(self.name, self.options)


class Sweep(BaseModel):
    """The resolved configuration of a run."""

    model_config = ConfigDict(extra="forbid")

    experiment: str
    profile: str = ""
    about: str = ""
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

    @property
    def labels(self) -> list[str]:
        """What rows call each dataset: its name, with its options where the name is there more than once."""
        names = [task.name for task in self.datasets]
        return [t.name if names.count(t.name) == 1 else t.written for t in self.datasets]

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
    """Names of an experiment's profiles; none where a file of one's own has none."""
    return list(_read(name).get("profiles", {}))


def is_file(name: str) -> bool:
    """Whether an experiment is named by a file of one's own."""
    return name.endswith((".yaml", ".yml"))


def stem_of(name: str, profile: str) -> str:
    """What the run folder of an experiment is called, where no other name is given."""
    return "-".join(filter(None, [Path(name).stem if is_file(name) else name, profile]))


def _read(name: str) -> dict[str, Any]:
    if is_file(name):
        return read_mapping(Path(name))
    if name not in known():
        raise UserError(
            f"unknown experiment {name!r}; known: {', '.join(known())}; or give a file: ./mine.yaml "
            "(--print writes one to start from)"
        )
    return read_mapping(_HERE / f"{name}.yaml")


def profile_of(name: str, asked: str | None) -> str:
    """The profile to run: the one asked for, else smoke, or the only one of a file of one's own.

    Empty for a file without profiles. Raises `UserError` for one that the experiment does not have.
    """
    there = profiles(name)
    if not there:
        if asked is not None:
            raise UserError(f"{name} has no profiles, so no {asked!r}; leave --profile out")
        return ""
    chosen = asked or (there[0] if len(there) == 1 and is_file(name) else "smoke")
    if chosen not in there:
        raise UserError(f"unknown profile {chosen!r} of {name}; known: {', '.join(there)}")
    return chosen


def resolve(name: str, profile: str, **overrides: Any) -> Sweep:
    """An experiment's profile with what the command line overrides (None = not given).

    `name` is a built-in experiment, or a YAML file of one's own: with `common` and `profiles` as the built-in
    ones, or (profile "") the settings alone, as `written` gives them. Raises `UserError` for unknown names,
    settings that there are not, and impossible values.
    """
    document = _read(name)
    profile_of(name, profile or None)
    settings = {**document.get("common", {}), **document["profiles"][profile]} if profile else document
    merged = {"experiment": Path(name).stem, "profile": profile, **settings}
    merged |= {key: value for key, value in overrides.items() if value is not None}
    where = f"{name}: " if is_file(name) else ""
    unknown = [str(key) for key in merged if key not in Sweep.model_fields]
    if unknown:
        settable = ", ".join(key for key in Sweep.model_fields if key not in ("experiment", "profile"))
        raise UserError(f"{where}there is no setting {unknown[0]!r}; there are: {settable}")
    try:
        return Sweep(**merged)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        given = f", not {first['input']!r}" if isinstance(first["input"], (str, int, float)) else ""
        key = key if where else key.replace("_", "-")
        raise UserError(
            f"{where}{f'{key}: ' if key else ''}{what}{'' if 'not ' in what else given}"
        ) from error


def written(sweep: Sweep) -> str:
    """A sweep as YAML that `resolve` reads back from a file (`qcbench run ./FILE.yaml`)."""
    content = sweep.model_dump(mode="json")
    content["datasets"] = [task.written for task in sweep.datasets]
    content["calibration_set"] = sweep.calibration_set.written
    return str(yaml.safe_dump(content, sort_keys=False, width=110))
