"""Files from the Hugging Face hub, with a hub that does not answer noticed within seconds."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Literal

import httpx
import huggingface_hub
from huggingface_hub import constants, errors

from bench.assets import cache
from bench.assets.supported import check_config, read_config
from bench.errors import UserError

SECONDS = 5.0  # how long the hub may take to answer at all
# What an engine needs of a repository: no other frameworks' weights, no subfolders (onnx/, original/), no
# second copy of the weights (Mistral's consolidated.safetensors).
_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
_UNWANTED = ["*/*", "consolidated*"]
Kind = Literal["model", "dataset"]


class NoAnswerError(Exception):
    """The hub cannot be asked: offline mode, no network, or no answer in time."""


def is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` or `TRANSFORMERS_OFFLINE` forbids asking, now or at import."""
    asked = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return asked.upper() in {"1", "ON", "YES", "TRUE"} or bool(constants.HF_HUB_OFFLINE)


def ask(repo: str, revision: str | None = None, seconds: float = SECONDS, kind: Kind = "model") -> None:
    """Return when the hub knows the repository.

    Raises `NoAnswerError` within `seconds`, and `UserError` when the hub says that the repository does not
    exist or needs a login.
    """
    if is_offline():
        raise NoAnswerError("offline mode (HF_HUB_OFFLINE)")
    outcome: list[Exception | None] = []

    def request() -> None:
        try:
            api = huggingface_hub.HfApi()
            info = api.model_info if kind == "model" else api.dataset_info
            info(repo, revision=revision, timeout=seconds)
            outcome.append(None)
        except Exception as error:  # handed to the waiting thread, which sorts it
            outcome.append(error)

    # A thread, because the client's own time limit does not cover looking up the host's address.
    asking = threading.Thread(target=request, daemon=True)
    asking.start()
    asking.join(seconds)
    error = outcome[0] if outcome else NoAnswerError(f"no answer within {seconds:g} s")
    if error is not None:
        raise _sorted_out(repo, error, kind) from error


def snapshot(repo: str, say: cache.Say = cache.silent) -> tuple[Path, str]:
    """The folder of a model repository in the hub's own cache, and its commit.

    Asks the hub for what is new; without an answer an earlier complete download is used. Raises `UserError`
    when neither can be had, or the disk is full.
    """
    no_answer: Exception | None = None
    try:
        ask(repo)
    except NoAnswerError as error:
        no_answer = error
    try:
        if no_answer is None:
            # A model that cannot be run is refused before gigabytes of it are fetched.
            config = huggingface_hub.hf_hub_download(repo, "config.json", etag_timeout=SECONDS)
            check_config(read_config(Path(config)), repo)
            _require_space_for(repo, say)
        found = huggingface_hub.snapshot_download(
            repo,
            etag_timeout=SECONDS,
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
            local_files_only=no_answer is not None,
        )
    except errors.LocalEntryNotFoundError as error:
        raise UserError(
            f"the Hugging Face hub gives no answer ({no_answer or _first_line(error)}) and {repo} is not on "
            "this disk in full; connect, or use a built-in model or a local folder"
        ) from error
    except (httpx.HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full: {repo} could not be downloaded; make room") from error
        raise UserError(f"{repo} could not be downloaded ({_first_line(error)}); try again") from error
    return Path(found), Path(found).name


def file(
    repo: str,
    name: str,
    revision: str,
    folder: Path | None,
    say: cache.Say = cache.silent,
    kind: Kind = "model",
) -> Path:
    """One file of a revision: from the hub's own cache, else downloaded into `folder` (None: that cache).

    Raises `NoAnswerError` when it cannot be had for a reason that lies with the hub or the way to it.
    """
    cached = huggingface_hub.try_to_load_from_cache(repo, name, revision=revision, repo_type=kind)
    if isinstance(cached, str):
        return Path(cached)
    try:
        ask(repo, revision, kind=kind)
        say(f"downloading {name} from the hub ({repo})")
        return Path(
            huggingface_hub.hf_hub_download(
                repo, name, revision=revision, local_dir=folder, etag_timeout=SECONDS, repo_type=kind
            )
        )
    except UserError as error:
        raise NoAnswerError(str(error)) from error
    except (httpx.HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the hub
            raise
        raise NoAnswerError(_first_line(error)) from error


def _require_space_for(repo: str, say: cache.Say) -> None:
    """Check the disk of the hub's cache against what a snapshot still has to download."""
    plan = huggingface_hub.snapshot_download(
        repo, etag_timeout=SECONDS, allow_patterns=_WANTED, ignore_patterns=_UNWANTED, dry_run=True
    )
    missing = sum(item.file_size or 0 for item in plan if item.will_download)
    if missing:
        say(f"downloading {repo} from the hub ({missing / 1e9:.1f} GB)")
        store = Path(huggingface_hub.constants.HF_HUB_CACHE)
        store.mkdir(parents=True, exist_ok=True)
        cache.require_space(store, missing, "HF_HOME")


def _sorted_out(repo: str, error: Exception, kind: Kind = "model") -> Exception:
    """The error to raise for what asking the hub came to."""
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"{repo} is gated: accept its licence on the hub, then log in (hf auth login)")
    if isinstance(error, (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)):
        return UserError(f"the Hugging Face hub has no {kind} {repo} (a private one needs hf auth login)")
    if isinstance(error, errors.HFValidationError):
        return UserError(f"{repo} is not a valid hub name: {_first_line(error)}")
    if isinstance(error, (NoAnswerError, httpx.HTTPError, OSError)):
        return NoAnswerError(_first_line(error))
    return error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
