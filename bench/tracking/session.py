"""W&B's client, kept small: no thread that samples, no captured console, nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from bench.errors import UserError
from bench.tracking.content import DIGEST, ROWS_DIGEST, Mirrored

if TYPE_CHECKING:
    from pathlib import Path

    import wandb

TIMEOUT_S = 60.0
"""Seconds that W&B's server has for one answer, and for taking one run."""
RETRIES = 2
PROJECT = "qcfuse-bench"
"""The project where none is named."""
RESUME = "The rows are untouched; `qcbench publish RUN` goes on where it stopped"
LOGIN = (
    "W&B: no API key; run `wandb login` or set WANDB_API_KEY, or see the report without an account: "
    "qcbench publish RUN --dry-run"
)


@contextlib.contextmanager
def client(timeout: float = TIMEOUT_S) -> Iterator[None]:
    """W&B's client process, for as long as the block lasts.

    Its caches, logs and staged files lie in a temporary folder, it reports no crash of its own, and a
    request to the server is given up after `timeout` seconds and `RETRIES` repetitions. What the server or
    the connection does wrong is raised as `UserError`.
    """
    with tempfile.TemporaryDirectory(prefix="qcbench-wandb-") as folder:
        ours = {f"WANDB_{name}_DIR": folder for name in ("CACHE", "DATA", "ARTIFACT")}
        # every object of the client's public API makes a folder in WANDB_DIR
        ours |= {"WANDB_DIR": folder, "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        import wandb

        try:
            wandb.teardown()  # a client that somebody else started has other settings
            wandb.setup(settings=wandb.Settings(**_bounds(timeout)))
            with _one_line(timeout):
                yield
        finally:
            wandb.teardown()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def project_name() -> str:
    """The project where the command line names none: `WANDB_PROJECT`, else `PROJECT`."""
    return os.environ.get("WANDB_PROJECT") or PROJECT


def entity_name() -> str | None:
    """The entity where the command line names none: `WANDB_ENTITY`, else None, the account's own."""
    return os.environ.get("WANDB_ENTITY") or None


def require_key() -> None:
    """Raise `UserError` where no API key is at hand (environment, .netrc); asks neither user nor server.

    Inside of `client` only.
    """
    import wandb

    if not wandb.login(prompt=False, verify=False):
        mode = os.environ.get("WANDB_MODE", "")
        if mode in ("offline", "disabled", "dryrun"):  # then a key is not looked for
            raise UserError(f"WANDB_MODE={mode} keeps W&B from the network: unset it, or use --dry-run")
        raise UserError(LOGIN)


@contextlib.contextmanager
def opened(
    content: Mirrored,
    *,
    mode: Literal["offline", "online"],
    folder: str | Path,
    group: str,
    project: str,
    entity: str | None,
    timeout: float,
    resume: bool = False,
) -> Iterator[wandb.Run]:
    """A W&B run that takes `content`: config first, then what the block logs, then steps and summary.

    With `resume` the run is there already, and the steps that it holds
    are not sent again. The summary comes last and holds the content's digest, so that a run which has it
    has everything. Inside of `client` only.
    """
    import wandb

    settings = wandb.Settings(
        console="off", x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
        x_save_requirements=False, disable_git=True, disable_code=True, save_code=False,
        disable_job_creation=True, x_disable_viewer=True, silent=True, program="qcbench",
        init_timeout=timeout, finish_timeout=timeout, finish_timeout_raises=True, **_bounds(timeout),
    )  # fmt: skip
    run = wandb.init(
        project=project, entity=entity, id=content.id, name=content.name, group=group, job_type=content.kind,
        mode=mode, dir=str(folder), settings=settings,
        resume=None if mode == "offline" else "allow" if resume else "never",
        config=content.config | {ROWS_DIGEST: content.rows_digest},
    )  # fmt: skip
    with run:
        if resume:
            run.config.update(content.config, allow_val_change=True)  # type: ignore[no-untyped-call]
        held = run.step
        if content.steps:  # else the last request's values would stand as the cell's
            run.define_metric("*", summary="none")
        yield run
        for number, step in enumerate(content.steps[held:], start=held):
            run.log(step, step=number)
        run.summary.update({**content.summary, DIGEST: content.digest})


def one_line(text: str, longest: int = 200) -> str:
    """A message as one line without control characters, at most `longest` characters of it."""
    plain = "".join(" " if unicodedata.category(sign).startswith("C") else sign for sign in text)
    line = " ".join(plain.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _bounds(timeout: float) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for part in ("graphql", "file_stream", "file_transfer"):
        bounds |= {
            f"x_{part}_retry_max": RETRIES,
            f"x_{part}_retry_wait_min_seconds": min(1.0, timeout / 10),
            f"x_{part}_retry_wait_max_seconds": min(5.0, timeout / 5),
            f"x_{part}_timeout_seconds": timeout / (RETRIES + 1),
        }
    return bounds


@contextlib.contextmanager
def _one_line(timeout: float) -> Iterator[None]:
    import wandb
    from wandb.sdk.lib.service.service_connection import (  # type: ignore[import-not-found]
        WandbApiFailedError,
    )

    try:
        yield
    except (wandb.Error, WandbApiFailedError, TimeoutError) as error:
        said = one_line(str(error)) or type(error).__name__
        url = wandb.setup().settings.base_url
        if isinstance(error, TimeoutError) or "did not respond in time" in said:
            said = f"{url} did not answer well within {timeout:g} s"
        elif isinstance(error, wandb.errors.AuthenticationError):
            said += "; log in anew with `wandb login --relogin`, or mend WANDB_API_KEY"
        raise UserError(f"W&B: {said}. {RESUME}") from error
