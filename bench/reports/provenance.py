"""Environment and provenance of a run as a list of facts."""

from __future__ import annotations

from typing import Any

from bench.reports.run_view import RunView


def provenance(run: RunView) -> list[tuple[str, str]]:
    """(what, value) from `run.json`: configuration, data, models, code, packages, machine, sessions."""
    info = run.info
    sweep, git = _dict(info, "sweep"), _dict(info, "git")
    facts = [
        ("experiment", f"{info.get('experiment', 'not recorded')}, profile {info.get('profile', '?')}"),
        ("identity", str(info.get("identity", "not recorded"))),
        ("commit", _commit(git)),
        ("machine", _facts(_dict(info, "host"))),
        ("packages", _facts(_dict(info, "versions"))),
        ("number format", str(info.get("dtype", "not recorded"))),
        ("store", f"{sweep.get('store', 'not recorded')}; {info.get('warm', '')}".rstrip("; ")),
        ("seed", str(sweep.get("seed", "not recorded"))),
    ]
    memory = _dict(info, "memory").get("peak_rss_bytes")
    if isinstance(memory, int):
        facts.append(("peak memory", f"{memory / 2**30:.2f} GiB"))
    facts += [(f"model {name}", _facts(about)) for name, about in _items(info, "models")]
    facts += [(f"data {name}", _facts(about)) for name, about in _items(info, "datasets")]
    methods = info.get("methods")
    for method in methods if isinstance(methods, list) else []:
        if isinstance(method, dict):
            facts.append((f"method {method.get('name')}", _facts(method, without=("name", "about"))))
    sessions = info.get("sessions")
    for number, one in enumerate(sessions if isinstance(sessions, list) else [], 1):
        if isinstance(one, dict):
            facts.append(
                (f"session {number}", f"began {one.get('began')}; commit {_commit(_dict(one, 'git'))}")
            )
    return facts


def _dict(holder: dict[str, Any], key: str) -> dict[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _items(holder: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, about) for name, about in _dict(holder, key).items() if isinstance(about, dict)]


def _commit(git: dict[str, Any]) -> str:
    if not git.get("commit"):
        return "not recorded"
    changed = f", changed (diff {str(git['dirty_sha256'])[:16]})" if git.get("dirty_sha256") else ""
    return f"{git['commit']}{changed}"


def _facts(about: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    parts = []
    for key, value in about.items():
        if key in without or value in ("", None, [], {}):
            continue
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        if isinstance(value, dict):
            text = _facts(value)
        parts.append(f"{key.replace('_', ' ')} {text}")
    return "; ".join(parts) or "not recorded"
