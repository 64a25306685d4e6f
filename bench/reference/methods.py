"""docs/methods.md: the paper's Table 2 with numbers, from docstrings and one measured request."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields

from bench import plugins
from bench.checks.speed import Stand
from bench.method import Method
from bench.methods import NamedMethod, method_of
from bench.store.memory import MemoryStore
from bench.view import Cached, RequestView

RHO = 0.3

HEAD = """# Methods

Made by `qcbench methods --write docs/methods.md` from the docstrings in `methods/` and one request;
do not edit.

The paper's Table 2 with numbers: what each method reads before the first position can be recomputed,
on {model}, {chunks} chunks of {tokens} tokens (N = {n}), a query of {query}, rho {rho:g}, {dtype}. The
whole cache is {whole:.1f} MB. K and V are cached keys and values.

| method | variant | reads before fusion | bytes | of the whole cache |
|---|---|---|---|---|
"""
NOTE = """

An instruction's cache, where a request has one, is read besides. CacheBlend reads nothing before, but
recomputes every position at its first layers. `oracle_deviation` runs a full prefill to know; its TTFT
means nothing.

"""


@dataclass(frozen=True)
class Looked:
    """What a method's selection read: a description, bytes, and the bytes of the whole cache."""

    what: str
    bytes: int
    whole: int


def looked_at(stand: Stand, named: NamedMethod) -> Looked:
    """Run one selection and read off its reader what it asked for."""
    reads, preparer = stand.reads(MemoryStore())
    cached = preparer.caches(stand.request, named)
    whole = sum(reads.store.layer_bytes(key) for key in cached.entries) * stand.engine.layers
    method, middle = named.method, stand.engine.layers // 2
    if not method.uses_cache:
        return Looked("nothing", 0, whole)
    profile = [-abs(layer - middle) for layer in range(stand.engine.layers)]
    with RequestView(stand.engine, reads, stand.request, cached, profile) as view:
        rho = method.nominal(len(stand.request.chunks), len(stand.request.chunks[0]))
        method.select(stand.request, view, method.budget(stand.request, RHO if rho is None else rho))
        return Looked(_describe(view, cached, stand.engine.layers), view.reader.bytes_read, whole)


def _describe(view: RequestView, cached: Cached, layers: int) -> str:
    packed = {key: name for name, keys in cached.packed.items() for key in keys}
    found: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for key, layer, part in view.reader.asked:
        if key not in cached.prefix:
            found[packed.get(key, "context"), part].add((key, layer))
    parts: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for (name, kind), where in sorted(found.items()):
        tokens = sum(view.reader.store.positions(key).shape[-1] for key in {key for key, _ in where})
        parts[name, tokens, len({layer for _, layer in where})].append(kind[0].upper())
    return "; ".join(
        f"{' and '.join(names)} of {tokens} {name} tokens, {count if count < layers else 'all'} layers"
        for (name, tokens, count), names in parts.items()
    ) or "nothing"  # fmt: skip


def page(stand: Stand, model: str) -> str:
    """The whole page."""
    request, rows, about = stand.request, [], []
    for name in plugins.available("methods"):
        cls = type(method_of(name).method)
        for variant in ["paper", *(["released"] if cls.released else [])]:
            looked = looked_at(stand, method_of(f"{name}[variant={variant}]"))
            share = f"{looked.bytes / looked.whole:.1%}"
            rows.append(f"| `{name}` | {variant} | {looked.what} | {looked.bytes / 1e6:.2f} MB | {share} |")
        about.append(_section(name, cls))
    head = HEAD.format(
        model=model, chunks=len(request.chunks), tokens=len(request.chunks[0]), n=request.context_tokens,
        query=len(request.query), rho=RHO, dtype=str(stand.engine.dtype).removeprefix("torch."),
        whole=looked.whole / 1e6,
    )  # fmt: skip
    return head + "\n".join(rows) + NOTE + "\n".join(about)


def _section(name: str, cls: type[Method]) -> str:
    text = inspect.getdoc(cls) or ""
    lines = [f"## `{name}`", "", text, ""]
    if parameters := fields(cls):
        lines += ["| parameter | default | released code |", "|---|---|---|"]
        for field in parameters:
            released = f"`{cls.released[field.name]}`" if field.name in cls.released else ""
            lines.append(f"| `{field.name}` | `{field.default}` | {released} |")
        lines.append("")
    return "\n".join(lines)


def names_in(text: str) -> Sequence[str]:
    """The methods a page has a section for, in order."""
    return [line[4:-1] for line in text.splitlines() if line.startswith("## `")]
