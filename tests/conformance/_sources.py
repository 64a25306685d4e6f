"""Methods broken on purpose, with the checks that have to fail, and sound ones."""

from __future__ import annotations

HEAD = '''
import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from bench.method import Method, per_chunk, top


def first(request, budget):
    """The first tokens of every chunk: sound."""
    starts = zip(request.chunk_starts, per_chunk(request, budget))
    return torch.cat([torch.arange(s, s + k) for s, k in starts])


@dataclass
class Mine(Method):
    """Mine."""
'''
SELECT = """
    def select(self, request, view, budget):
        {}
"""
SOUND = SELECT.format("return first(request, budget)")
ALL = SELECT.format("return torch.arange(request.context_tokens if budget else 0)")
NARROW = """
    def narrow(self, layer, fresh, cached, positions, budget):
        {}
"""
KEPT = """
    def __post_init__(self):
        self.kept = {}
"""

SOUNDS = {
    "static": SOUND,
    "narrowing": ALL + NARROW.format("return positions[:budget] if layer == 1 else None"),
    "looking": SELECT.format("return top(view.keys(1).norm(dim=-1).sum(-1), budget)"),
    "preparing": SELECT.format("view.probe('some'); return first(request, budget)")
    + "\n    def prepare(self, chunk):\n        return {'some': torch.arange(1)}\n",
    "nominal": """
    def nominal(self, chunks, chunk_tokens):
        return 0.5

    def budget(self, request, rho):
        return sum(len(c) // 2 for c in request.chunks)

    def select(self, request, view, budget):
        starts = zip(request.chunk_starts, request.chunks)
        return torch.cat([torch.arange(s, s + len(c) // 2) for s, c in starts])
""",
}

BROKEN: dict[str, tuple[str, set[str]]] = {
    "one position too many": (
        SELECT.format("return torch.arange(min(budget + 1, request.context_tokens))"),
        {"budget is exact"},
    ),
    "at least one position": (
        SOUND
        + "\n    def budget(self, request, rho):\n        return max(1, super().budget(request, rho))\n",
        {"budget is exact", "k 0 equals direct reuse"},
    ),
    "rho of the whole prompt": (
        SOUND
        + "\n    def budget(self, request, rho):\n"
        + "        return min(request.context_tokens, int(rho * len(request.ids)))\n",
        {"budget is exact", "nominal rho is counted"},
    ),
    "half of what it says": (
        SELECT.format("return first(request, budget)")
        + "\n    def nominal(self, chunks, chunk_tokens):\n        return 0.8\n"
        + "\n    def budget(self, request, rho):\n        return int(0.4 * request.context_tokens)\n",
        {"nominal rho is counted"},
    ),
    "past the context": (
        SELECT.format("return torch.arange(budget) + request.context_tokens - budget + 1"),
        {"positions are valid"},
    ),
    "a position twice": (SELECT.format("return torch.arange(budget) // 2 * 2"), {"positions are valid"}),
    "keeps what it was not given": (
        ALL
        + NARROW.format("return torch.cat((positions[:budget], positions[-1:] + 9)) if layer == 1 else None"),
        {"positions are valid"},
    ),
    "keeps too few": (
        ALL + NARROW.format("return positions[: budget - 1] if layer == 1 else None"),
        {"narrow keeps the budget", "budget is exact"},
    ),
    "never gets down to the budget": (
        ALL + NARROW.format("return positions[: budget + 1] if layer == 1 else None"),
        {"narrow keeps the budget"},
    ),
    "narrows at the last layer, which is then counted before": (
        ALL + NARROW.format("return positions[:budget] if layer == 3 else None"),
        {"narrow keeps the budget"},
    ),
    "scales fresh values": (
        ALL
        + NARROW.format(
            "fresh.values.mul_(0.9) if layer == 2 else None; "
            "return positions[:budget] if len(positions) > budget else None"
        ),
        {"rho 1 equals full prefill", "tensors are left unchanged"},
    ),
    "refreshes the first layers at k = 0": (
        SELECT.format("return torch.arange(request.context_tokens)")
        + NARROW.format("return positions[:budget] if layer == 1 else None"),
        {"k 0 equals direct reuse"},
    ),
    "mixes later tokens into earlier rows": (
        ALL
        + NARROW.format(
            "fresh.values.add_(cached.values.mean(0)) if layer == 2 else None; "
            "return positions[-budget:] if len(positions) > budget else None"
        ),
        {"no row sees the future"},
    ),
    "stops at chunks without company": (
        SELECT.format("request.chunks[1]; return first(request, budget)"),
        {"one chunk"},
    ),
    "spoils a lone chunk": (
        ALL
        + NARROW.format(
            "fresh.values.mul_(2) if layer == 2 and max(positions) < 30 else None; "
            "return positions[:budget] if len(positions) > budget else None"
        ),
        {"one chunk"},
    ),
    "a window of two tokens": (
        SELECT.format(
            "[torch.arange(len(c)).unfold(0, 2, 1) for c in request.chunks]; return first(request, budget)"
        ),
        {"chunk of one token"},
    ),
    "all chunks of the first one's length": (
        SELECT.format(
            "\n        size, k = len(request.chunks[0]), per_chunk(request, budget)"
            "\n        return torch.cat([torch.arange(n) + (i + 1) * size - n for i, n in enumerate(k)])"
        ),
        {"last chunk short"},
    ),
    "rotates the store's keys in place": (
        SELECT.format(
            "view.reader.part(view.cached.chunks[0], 1, 'keys').mul_(1.01); return first(request, budget)"
        ),
        {"idempotent on one store"},
    ),
    "another answer every time": (
        KEPT.format("0")
        + SELECT.format(
            "self.kept += 1; n = request.context_tokens; return (torch.arange(budget) + self.kept) % n"
        ),
        {"idempotent on one store", "repeated request is answered anew"},
    ),
    "answers by length": (
        KEPT.format("{}")
        + SELECT.format(
            "n = (request.context_tokens, budget); self.kept.setdefault(n, "
            "top(view.keys(1).norm(dim=-1).sum(-1), budget)); return self.kept[n]"
        ),
        {"repeated request is answered anew", "permuted chunks get their own answer"},
    ),
    "reads for the first request alone": (
        KEPT.format("{}")
        + SELECT.format(
            "key = request.sha256, budget; keys = None if key in self.kept else view.keys(1); "
            "self.kept[key] = self.kept[key] if keys is None else top(keys.norm(dim=-1).sum(-1), budget); "
            "return self.kept[key]"
        ),
        {"repeated request is answered anew"},
    ),
    "remembers chunks without their order": (
        KEPT.format("{}")
        + SELECT.format(
            "key = frozenset(request.chunks), budget; self.kept.setdefault(key, "
            "top(view.keys(1).norm(dim=-1).sum(-1), budget)); return self.kept[key]"
        ),
        {"permuted chunks get their own answer"},
    ),
    "PyTorch's random numbers": (
        SELECT.format("return torch.randperm(request.context_tokens)[:budget]"),
        {"does not depend on global random state"},
    ),
    "Python's random numbers": (
        SELECT.format("return torch.tensor(random.sample(range(request.context_tokens), budget)).long()"),
        {"does not depend on global random state"},
    ),
    "NumPy's random numbers": (
        SELECT.format("return torch.from_numpy(np.random.permutation(request.context_tokens)[:budget])"),
        {"does not depend on global random state"},
    ),
    "asks for the tier": (
        SELECT.format(
            "last = view.reader.store.tier == 'disk' and budget < request.context_tokens; "
            "return torch.arange(budget) + int(last)"
        ),
        {"memory and disk tier agree"},
    ),
    "reads around the view": (
        SELECT.format(
            "k = [view.reader.store.part(c, 1, 'keys') for c in view.cached.chunks]; "
            "return top(torch.cat(k).norm(dim=-1).sum(-1), budget)"
        ),
        {"nothing is read around the view"},
    ),
    "runs the engine itself": (
        SELECT.format("view.engine.capture(request.ids[:9]); return first(request, budget)"),
        {"nothing is read around the view"},
    ),
    "reads around the view while layers are fused": (
        ALL.replace("return", "self.view = view; return")
        + NARROW.format(
            "[self.view.reader.store.part(c, layer, 'keys') for c in self.view.cached.chunks]; "
            "return positions[:budget]"
        ),
        {"nothing is read around the view"},
    ),
    "writes into the view's keys": (
        SELECT.format("return top(view.keys(1).abs_().sum((1, 2)), budget)"),
        {"tensors are left unchanged"},
    ),
    "writes into query states": (
        SELECT.format("view.probe(None).queries[0].zero_(); return first(request, budget)"),
        {"tensors are left unchanged"},
    ),
    "sorts its profile in place": (
        SELECT.format("view.profile.sort(); return first(request, budget)")
        + "\n    def profile(self, request, view):\n        return [3.0, 2.0, 1.0, 0.0]\n",
        {"tensors are left unchanged"},
    ),
    "trims the prompt": (
        SELECT.format("request.ids[-1] = 3; return first(request, budget)"),
        {"request is left unchanged"},
    ),
    "writes into the request": (
        SELECT.format("object.__setattr__(request, 'evidence', ()); return first(request, budget)"),
        {"request is left unchanged"},
    ),
}
