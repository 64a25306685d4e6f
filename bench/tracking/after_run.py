"""`qcbench run --wandb MODE`: what is done about W&B before a run and after it; during it, nothing."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from bench.errors import UserError
from bench.tracking.session import client, entity_name, project_name, require_key

MODES = ("offline", "online", "off")


def mode_before_run(asked: str | None) -> str:
    """The mode to mirror the run in: `asked`, else what `WANDB_MODE` asks for, else "offline".

    "online" wants an API key, looked for here: not after hours of measuring. Raises `UserError` where there
    is none, and where `WANDB_MODE` is something else than W&B's offline, online, disabled.
    """
    mode = asked
    if mode is None:
        said = os.environ.get("WANDB_MODE") or "offline"
        mode = {"offline": "offline", "online": "online", "disabled": "off"}.get(said.lower())
        if mode is None:
            raise UserError(
                f"WANDB_MODE={ascii(said)[:40]}: set offline, online or disabled, or give --wandb"
            )
    if mode == "online":
        with client():
            require_key()
    return mode


def mirror(run: Path, mode: str, console: Console) -> None:
    """Mirror a finished run's rows. Raises `UserError` as `mirror_offline` and `publish` do."""
    if mode == "offline":
        from bench.tracking.offline import mirror_offline

        out = mirror_offline(run, console, project_name())
        console.print(f"W&B, offline: {out}", markup=False, highlight=False, soft_wrap=True)
    elif mode == "online":
        from bench.tracking.publish import publish

        publish(run, console, project=project_name(), entity=entity_name())
