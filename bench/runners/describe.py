"""run.json: what a run is, where it comes from, and what was found out while it ran."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.results.provenance import environment
from bench.results.writer import write_json

if TYPE_CHECKING:
    from bench.runners.run import Plan


def note(out: Path, section: str, name: str, value: Any) -> None:
    """Write something found out, such as a model's profiles, into run.json."""
    described = json.loads((out / "run.json").read_text(encoding="utf-8"))
    described.setdefault(section, {})[name] = value
    write_json(out / "run.json", described)


def warn(out: Path, text: str) -> None:
    """Keep what readers of the results must know, once, in run.json."""
    described = json.loads((out / "run.json").read_text(encoding="utf-8"))
    warnings = described.setdefault("warnings", [])
    if text not in warnings:
        warnings.append(text)
        write_json(out / "run.json", described)


def noted(out: Path, section: str, name: str) -> Any:
    """What was noted, or None."""
    return json.loads((out / "run.json").read_text(encoding="utf-8")).get(section, {}).get(name)


def difference(before: dict[str, Any], the_plan: Plan) -> str:
    """Name what differs from the run that is there."""
    old, new = before.get("sweep", {}), the_plan.sweep.model_dump(mode="json")
    differs = [key for key in new if old.get(key) != new[key] and key not in ("about", "warmup", "requests")]
    return (
        f"{', '.join(differs)} differ"
        if differs
        else "a method, a dataset, its data or the model has changed"
    )


def description(the_plan: Plan, before: dict[str, Any]) -> dict[str, Any]:
    """run.json: configuration, provenance and one entry a session."""
    here = environment()
    session = {"began": time.strftime("%FT%TZ", time.gmtime()), "command": sys.argv[1:], **here}
    return {
        "experiment": the_plan.sweep.experiment,
        "profile": the_plan.sweep.profile,
        "identity": the_plan.identity,
        "sweep": the_plan.sweep.model_dump(mode="json"),
        "dtype": the_plan.dtype,
        "dtype_seconds": the_plan.dtype_seconds or before.get("dtype_seconds", {}),
        "models": {
            b.model.name: {"revision": b.model.revision, "source": b.model.source} for b in the_plan.blocks
        },
        "datasets": {b.task: b.provenance for b in the_plan.blocks},
        "methods": [
            {
                "name": m.name,
                "params": m.params,
                "source_sha256": m.source_sha256,
                "about": m.about,
                "prefix_cached": m.method.prefix_cached,
            }
            for m in the_plan.methods
        ],
        "profiles": before.get("profiles", {}),
        "bandwidth_units": before.get("bandwidth_units", {}),
        "calibration": before.get("calibration", {}),
        "trust": before.get("trust", {}),
        "memory": before.get("memory", {}),
        "warnings": before.get("warnings", []),
        "warm": f"model loaded and warmed up; every chunk cache lies in the {the_plan.sweep.store} tier, "
        + ("in memory" if the_plan.sweep.store == "memory" else "read from there for each request"),
        **here,
        "sessions": [*before.get("sessions", []), session],
    }
