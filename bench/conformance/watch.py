"""Watching a method at work: what it was given, whether it wrote into it, what it chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch

from bench.kv import KV
from bench.method import Method, Request, View

_OFFERED = {*View.__annotations__, *(name for name in vars(View) if not name.startswith("_"))}
_GIVES_TENSORS = ("probe", "attention", "keys", "values", "exact")


@dataclass(frozen=True)
class Narrowed:
    """One call of narrow(): the positions it was given and those it kept (None: all)."""

    layer: int
    given: torch.Tensor
    kept: torch.Tensor | None


@dataclass
class Watch:
    """What happened in one run. With `replay` the method works as ever, but its choices are those of
    an earlier run."""

    replay: Watch | None = None
    chosen: torch.Tensor | None = None
    narrowed: list[Narrowed] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Tensors that the method was given and changed."""
    foreign: set[str] = field(default_factory=set)
    """What the method used of the view beyond `bench.method.View`."""
    select_begins: Callable[[Any], None] = lambda view: None
    select_ended: Callable[[Any], None] = lambda view: None


class Given:
    """Tensors handed to a method, each with a copy to compare with."""

    def __init__(self) -> None:
        self._held: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def hand(self, what: str, value: Any) -> None:
        """Remember every tensor in a tensor, a `KV`, `States` or a list of them."""
        if isinstance(value, torch.Tensor):
            self._held.append((what, value, value.clone()))
        elif isinstance(value, list | tuple):
            for one in value:
                self.hand(what, one)
        else:
            for name, one in vars(value).items():
                self.hand(f"{what}.{name}", one)

    def changed(self) -> list[str]:
        """Which of them are no longer what they were."""
        return [what for what, now, before in self._held if not torch.equal(now, before)]


class WatchedView:
    """A view whose tensors are remembered; all else is the view's own."""

    def __init__(self, view: View, given: Given, foreign: set[str]) -> None:
        self._view, self._given, self._foreign = view, given, foreign

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._view, name)
        if name not in _OFFERED:
            self._foreign.add(name)
        if name not in _GIVES_TENSORS:
            return found

        @wraps(found)
        def call(*args: Any, **options: Any) -> Any:
            value = found(*args, **options)
            self._given.hand(f"view.{name}()", value)
            return value

        return call


@contextmanager
def watching(method: Method, watch: Watch) -> Iterator[None]:
    """Put hooks around the instance's select() and narrow(), and take them away again."""
    select, narrow = method.select, method.narrow

    def watched_select(request: Request, view: View, budget: int) -> torch.Tensor:
        given = Given()
        watch.select_begins(view)
        chosen = select(request, WatchedView(view, given, watch.foreign), budget)
        watch.select_ended(view)
        watch.written += given.changed()
        if watch.replay is not None:
            assert watch.replay.chosen is not None
            chosen = watch.replay.chosen
        watch.chosen = chosen.clone()
        return chosen

    def watched_narrow(
        layer: int, fresh: KV, cached: KV, positions: torch.Tensor, budget: int
    ) -> torch.Tensor | None:
        given = Given()
        for what, value in (("fresh", fresh), ("cached", cached), ("positions", positions)):
            given.hand(what, value)
        before = positions.clone()
        kept = narrow(layer, fresh, cached, positions, budget)
        watch.written += given.changed()
        if watch.replay is not None:
            kept = watch.replay.narrowed[layer].kept
        watch.narrowed.append(Narrowed(layer, before, None if kept is None else kept.clone()))
        return kept

    hooks = {"select": watched_select, "narrow": watched_narrow}
    vars(method).update(hooks)  # past the attributes of a frozen dataclass
    try:
        yield
    finally:
        for name in hooks:
            vars(method).pop(name, None)
