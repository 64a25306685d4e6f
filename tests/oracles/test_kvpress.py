"""Anchor scores against NVIDIA's kvpress: KVzip, Knorm and SnapKV, on the same weights and tokens.

kvpress 0.5.5 asks for transformers below 5.3 and, where the package is imported whole, for cachetools,
fire and peft, and it patches the attention of transformers. The three presses need none of that: their
modules are loaded one by one, under a package that stands empty, and their own scoring runs over a
`transformers` model.

Where the definitions part, kvpress's scores per KV head are reduced in our way, to one score a position
and layer, as `QCFuse.prepare` asks for one set of anchors a chunk:

- KVzip: ours takes the maximum over all heads, kvpress over the heads of a group; the maximum over KV
  heads of the latter is the former. kvpress repeats behind a chat template's suffix, here left empty, and
  forces 4 sinks when it prunes, not when it scores.
- Knorm: kvpress scores each KV head; ours is their mean.
- SnapKV: kvpress pools before it averages over a group's heads, ours after averaging over all heads;
  pooling is linear, so both are the mean over KV heads. kvpress's window is 64 tokens, ours 64 or, of a
  shorter chunk, a share; kvpress is asked with ours. The window's own positions have the highest score in
  both, in kvpress 1 above the next.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from dataclasses import dataclass, field
from importlib import metadata
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from bench.methods import method_of
from bench.runners.prepare import ChunkAtHand, Preparer
from bench.store.memory import MemoryStore
from bench.store.reader import Reads
from tests._tiny import ARCHITECTURES
from tests._tokenizer import tiny_tokenizer

VERSION = "0.5.5"
RELATIVE = 1e-4
SIZES = [24, 37, 150]


@pytest.fixture(scope="module")
def presses():
    """kvpress's modules for the three scores, without the package around them."""
    found = importlib.util.find_spec("kvpress")
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"needs kvpress=={VERSION} (requirements/cpu.txt)")
    assert metadata.version("kvpress") == VERSION
    empty = ModuleType("kvpress")
    empty.__path__ = list(found.submodule_search_locations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kvpress", empty)
        names = ("kvzip_press", "knorm_press", "snapkv_press")
        yield {name: importlib.import_module(f"kvpress.presses.{name}") for name in names}
        for name in [name for name in sys.modules if name.startswith("kvpress.")]:
            del sys.modules[name]  # they were imported under the empty package


@dataclass
class Asked(ChunkAtHand):
    """A chunk that remembers the windows it was asked for."""

    windows: list[int] = field(default_factory=list)

    def recent(self, window: int) -> list[torch.Tensor]:
        self.windows.append(window)
        return super().recent(window)


class Pair:
    """One chunk: as a method's preparation sees it, and run through a `transformers` model."""

    def __init__(self, engine, path, size: int) -> None:
        draw = random.Random(size)
        ids = tuple(draw.randrange(3, 400) for _ in range(size))
        preparer = Preparer(engine, Reads(MemoryStore(), engine.device), tiny_tokenizer(), "oracle")
        self.chunk = Asked(preparer, ids, preparer.capture(ids))
        self.model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self.ids = torch.tensor([ids])
        self.cache = DynamicCache()
        self.seen: list[tuple[Any, dict[str, Any]]] = []
        hooks = [
            layer.self_attn.register_forward_hook(
                lambda module, args, kwargs, out: self.seen.append((module, kwargs)), with_kwargs=True
            )
            for layer in self.model.model.layers
        ]
        with torch.no_grad():
            self.model.model(input_ids=self.ids, past_key_values=self.cache)
        for hook in hooks:
            hook.remove()

    @torch.no_grad()
    def score(self, press) -> torch.Tensor:
        """A ScorerPress's scores [L, Hkv, n], as its forward hook would ask for them."""
        scores = []
        for (module, kwargs), kept in zip(self.seen, self.cache.layers, strict=True):
            hidden = kwargs["hidden_states"]
            scores.append(press.score(module, hidden, kept.keys, kept.values, None, kwargs)[0])
        return torch.stack(scores)

    @torch.no_grad()
    def kvzip(self, press) -> torch.Tensor:
        """KVzipPress's scores [L, Hkv, n] from its own teacher-forced repetition, without a chat suffix."""
        press._suffix_ids = torch.empty(1, 0, dtype=torch.int64)
        press._context_ids, press._cache, press.prefix_length = self.ids, self.cache, 0
        press._perform_kvzip_compression(self.model, tiny_tokenizer())
        return press.score_val[:, 0]


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Scores [L, n] within the tolerance; the top k of a layer and of the mean are the same sets."""
    assert ours.shape == theirs.shape
    assert torch.allclose(ours, theirs, rtol=RELATIVE, atol=0)
    for a, b in zip([*ours, ours.mean(0)], [*theirs, theirs.mean(0)], strict=True):
        ranked = a.sort(descending=True).values
        clear = ((ranked[:-1] - ranked[1:]) > RELATIVE / 10 * ranked.abs().max()).nonzero()[:, 0] + 1
        for share in (10, 3):  # to the next k that no near tie makes arbitrary
            k = int(clear[clear >= len(a) // share][0])
            assert set(a.topk(k).indices.tolist()) == set(b.topk(k).indices.tolist())


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request, engine_of, checkpoint):
    return engine_of(request.param), checkpoint(request.param)


@pytest.mark.parametrize("size", SIZES)
def test_kvzip(presses, model, size: int) -> None:
    pair = Pair(*model, size)
    theirs = pair.kvzip(presses["kvzip_press"].KVzipPress()).amax(1)
    assert_same(method_of("qcfuse").method.kvzip(pair.chunk), theirs)


def test_kvzip_of_the_instruction_alone_is_another_score(presses, model) -> None:
    """The negative control: the released code's short cut."""
    pair = Pair(*model, 37)
    theirs = pair.kvzip(presses["kvzip_press"].KVzipPress()).amax(1)
    short = method_of("qcfuse[repeat=instruction]").method.kvzip(pair.chunk)
    assert float(((short - theirs) / theirs).abs().max()) > 0.1


@pytest.mark.parametrize("size", SIZES)
def test_knorm(presses, model, size: int) -> None:
    pair = Pair(*model, size)
    theirs = pair.score(presses["knorm_press"].KnormPress()).mean(1)
    assert_same(method_of("qcfuse").method.knorm(pair.chunk), theirs)


@pytest.mark.parametrize("size", [*SIZES, 1040])
def test_snapkv(presses, model, size: int) -> None:
    pair = Pair(*model, size)
    ours = method_of("qcfuse").method.snapkv(pair.chunk)
    (window,) = pair.chunk.windows
    assert window == 64 if size > 1024 else 0 < window < 64
    theirs = pair.score(presses["snapkv_press"].SnapKVPress(window_size=window)).mean(1)
    assert_same(ours[:, : size - window], theirs[:, : size - window])
    for scores in (ours, theirs):
        assert bool((scores[:, size - window :] >= scores[:, : size - window].amax()).all())


def test_snapkv_with_another_window_is_another_score(presses, model) -> None:
    """The negative control."""
    pair = Pair(*model, 150)
    ours = method_of("qcfuse").method.snapkv(pair.chunk)
    (window,) = pair.chunk.windows
    theirs = pair.score(presses["snapkv_press"].SnapKVPress(window_size=window + 1)).mean(1)
    assert float((ours / theirs - 1)[:, : 149 - window].abs().max()) > 0.1
