"""The quality gate of a model: is fusion exact on it, before any score is believed (`qcbench doctor`).

Every check compares two ways to the same numbers, on a short request of random tokens, and says how far
they are apart beside what a mistake would do: the distance of stale caches, or of unrotated keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bench.engine.engine import Engine, FirstToken
from bench.errors import UserError
from bench.kv import KV, Entry

EXACT = 1e-3
"""In fp32, of the largest number compared: what rounding in another order does."""
COARSE = 0.1
"""In bf16, of what a mistake does: rounding is no longer small beside the numbers."""
ROUNDINGS = 3
"""In bf16, of what rounding alone does to `transformers`' logits, where it was asked: on the small built-in
models and four prompts SGLang's were off from fp32 by 0.5 to 1.6 times that."""
FAMILIES = "Llama, Mistral, Qwen2 and Qwen3 models"
"""What the engine is written for."""
CHUNKS, PREFIX, QUERY = (40, 33, 24), 7, 11
"""Tokens of the request's parts."""
MOVE = 8000
"""Positions that keys are moved by: about as far as a chunk goes in a request of 20 x 512 tokens. A small
error of the table grows with it, the rounding of a bf16 table does not."""


@dataclass(frozen=True)
class Finding:
    """One check: whether it holds, what was seen, and where to look if it does not."""

    name: str
    right: bool
    seen: str
    look: str = ""


@dataclass(frozen=True)
class Held:
    """Entries in memory as a source of layers."""

    entries: Sequence[Entry]

    def layer(self, layer: int) -> list[KV]:
        """Each entry's keys before RoPE and values."""
        return [KV(entry.keys[layer], entry.values[layer]) for entry in self.entries]


def traits(path: Path) -> Iterator[tuple[str, str]]:
    """What of a checkpoint decides how its caches are fused, from its configuration.

    Raises `UserError` where the configuration cannot be read, or is of a model whose layers
    do not all keep keys and values.
    """
    config = _config(path)
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    layers = config.num_hidden_layers
    yield "architecture", f"{', '.join(config.architectures or ['unknown'])}, {layers} layers"
    yield "attention", f"{heads} query heads on {kv_heads} key heads of {size}"
    yield "cache", f"{2 * 2 * layers * kv_heads * size / 1e3:.1f} kB a token in bf16"
    yield "RoPE", _rope(config)
    qk_norm = type(config).__name__.startswith("Qwen3")
    yield "q/k-norm", "yes: keys are cached after it" if qk_norm else "none"
    yield "context", f"{config.max_position_embeddings} tokens"


def _config(path: Path) -> Any:
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False).get_text_config()
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, StrictDataclassError) as error:
        said = ascii((str(error).strip().splitlines() or [type(error).__name__])[0][:200])
        raise UserError(
            f"{path}: config.json cannot be used ({said}); mend it, or give another model: "
            f"cache fusion runs on {FAMILIES}"
        ) from error
    needed = (
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size",
        "max_position_embeddings",
    )  # fmt: skip
    missing = [name for name in needed if getattr(config, name, None) is None]
    if missing:
        raise UserError(
            f"{path}: {type(config).__name__} has no {', '.join(missing)}; "
            f"give another model: cache fusion runs on {FAMILIES}"
        )
    return config


def _rope(config: Any) -> str:
    scaling = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    theta = scaling.get("rope_theta", getattr(config, "rope_theta", None))
    scaled = "no scaling" if kind == "default" else f"scaling {kind}, factor {scaling.get('factor')}"
    return f"{scaled}, theta {theta:g}" if theta else scaled


class Gate:
    """A model loaded, a request [S; c1; c2; c3; U] of random tokens, and its full prefill."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rounding: float | None = None
        """How far `transformers`' logits in the engine's dtype are from its own in fp32, once known."""
        draw = random.Random(3)
        top = min(engine.runtime.vocab, 20_000)
        self.prefix, *self.chunks, self.query = (
            [draw.randrange(3, top) for _ in range(n)] for n in (PREFIX, *CHUNKS, QUERY)
        )
        self.context = [token for chunk in self.chunks for token in chunk]
        self.ids = [*self.prefix, *self.context, *self.query]
        self.cached = len(self.prefix) + len(self.context)
        self.some = torch.tensor(sorted(draw.sample(range(len(self.context)), len(self.context) // 3)))
        engine.runtime.clear()
        full = engine.prefill(self.ids)
        self.logits = full.logits.clone()
        self.keys, self.values = self._pool(full)

    def _pool(self, first: FirstToken) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys after RoPE and values of a request as they lie in SGLang's pool, [L, T, Hkv, D]."""
        run, at = self.engine.runtime, first.slots.at
        layers = range(self.engine.layers)
        return torch.stack([run.keys(i)[at] for i in layers]), torch.stack(
            [run.values(i)[at] for i in layers]
        )

    def fuse(self, entries: Sequence[Entry], positions: torch.Tensor) -> FirstToken:
        """The request fused from some entries; some context positions recomputed."""
        self.engine.runtime.clear()
        return self.engine.fuse(self.ids, self.cached, Held(entries), positions, len(self.prefix))

    def off(self, entries: Sequence[Entry], positions: torch.Tensor) -> float:
        """How far the first token's logits are from full prefill's, at most."""
        return distance(self.fuse(entries, positions).logits, self.logits)

    @cached_property
    def exact(self) -> Entry:
        """The whole of [S; C] cached as one piece: what full prefill computes."""
        return self.engine.capture(self.ids[: self.cached])

    @cached_property
    def alone(self) -> list[Entry]:
        """Each part cached alone: stale from layer 1 on."""
        return [self.engine.capture(part) for part in (self.prefix, *self.chunks)]

    @cached_property
    def stale(self) -> float:
        """What nothing recomputed over stale caches does to the logits: the size of a mistake."""
        return self.off(self.alone, torch.arange(0))

    def close(self, off: float, mistake: float, scale: float) -> bool:
        """Whether two numbers that should be one are: `scale` is their size, `mistake` the alternative."""
        if self.engine.dtype == torch.float32:
            return off <= EXACT * max(1.0, scale)
        return off <= (COARSE * mistake if self.rounding is None else ROUNDINGS * self.rounding)


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two tensors of one shape."""
    return float((a.float() - b.float()).abs().max())


def findings(engine: Engine, path: Path, reference: bool) -> Iterator[Finding]:
    """Run the checks one by one. `reference` compares with `transformers`, which loads the model again."""
    gate = Gate(engine)
    yield _capture(gate)
    yield _rotation(gate)
    yield _stitch(gate)
    yield _logits(gate, "rho = 1", lambda: gate.off(gate.alone, torch.arange(len(gate.context))))
    yield _logits(gate, "an exact cache", lambda: gate.off([gate.exact], gate.some))
    yield _future(gate)
    yield _stale(gate)
    if reference:
        yield _transformers(gate, path)


def few(engine: Engine, path: Path, reference: bool) -> Iterator[Finding]:
    """The checks that every run asks first: seconds on a model of half a billion parameters."""
    gate = Gate(engine)
    finite = _finite(gate)
    yield finite
    if not finite.right:  # nothing else can be compared
        return
    if reference:
        yield _transformers(gate, path)
    yield _logits(gate, "rho = 1", lambda: gate.off(gate.alone, torch.arange(len(gate.context))))


def _finite(gate: Gate) -> Finding:
    """Full prefill's logits, keys and values are numbers."""
    wrong = sum(int((~torch.isfinite(x)).sum()) for x in (gate.logits, gate.keys, gate.values))
    return Finding(
        "finite logits", wrong == 0, f"{wrong} logits, keys and values of full prefill are not finite",
        "a weight is not a number, or overflows in this dtype: the checkpoint is damaged",
    )  # fmt: skip


def _capture(gate: Gate) -> Finding:
    """Captured keys, rotated once to where they stood, and values, are those SGLang's prefill wrote."""
    at = torch.arange(gate.cached, device=gate.engine.device)
    rotated = torch.stack([gate.engine.rotate(keys, at) for keys in gate.exact.keys])
    keys, values = gate.keys[:, : gate.cached], gate.values[:, : gate.cached]
    off = max(distance(rotated, keys), distance(gate.exact.values, values))
    mistake = distance(gate.exact.keys, keys)  # not rotated
    right = gate.close(off, mistake, float(keys.float().abs().max()))
    return Finding(
        "capture", right, f"keys and values off by {off:.2g}; unrotated keys by {mistake:.2g}",
        "keys are taken before RoPE and after q/k-norm, where it begins: bench/engine/sglang.py",
    )  # fmt: skip


def _rotation(gate: Gate) -> Finding:
    """RoPE is relative: products of keys at two positions keep when both move on by the same distance."""
    keys = gate.exact.keys[-1].float()
    rotary = gate.engine.runtime.rotary
    move = min(MOVE, len(rotary.cos_sin_cache) - len(keys))
    at = torch.arange(len(keys), device=keys.device)

    def products(positions: torch.Tensor) -> torch.Tensor:
        from bench.kernels.rotate import rotate

        turned = rotate(keys, positions, rotary.cos_sin_cache.float(), rotary.is_neox_style)
        return torch.einsum("nhd,mhd->hnm", turned, turned)

    here, there = products(at), products(at + move)
    mistake = distance(here, torch.einsum("nhd,mhd->hnm", keys, keys))
    off = distance(here, there)
    right = gate.close(off, mistake, float(here.abs().max())) and mistake > 10 * off
    return Finding(
        "rotate", right, f"moved by {move} positions, products off by {off:.2g}; unrotated by {mistake:.2g}",
        "the rotary table is not of relative positions: this model's caches cannot be moved",
    )  # fmt: skip


def _stitch(gate: Gate) -> Finding:
    """What stitching writes into the pool is what full prefill wrote there, at every layer."""
    keys, values = gate._pool(gate.fuse([gate.exact], torch.arange(0)))
    off = max(distance(keys, gate.keys), distance(values, gate.values))
    keys, values = gate._pool(gate.fuse(gate.alone, torch.arange(0)))
    mistake = max(distance(keys, gate.keys), distance(values, gate.values))
    return Finding(
        "stitch", gate.close(off, mistake, float(gate.keys.float().abs().max())),
        f"the pool is off by {off:.2g} with an exact cache; by {mistake:.2g} with stale ones",
        "slots or positions of the stitched cache are wrong: bench/kernels/stitch.py",
    )  # fmt: skip


def _logits(gate: Gate, name: str, measure: Callable[[], float]) -> Finding:
    off = measure()
    return Finding(
        f"{name} equals full prefill", gate.close(off, gate.stale, float(gate.logits.float().abs().max())),
        f"logits off by {off:.2g}; by {gate.stale:.2g} with stale caches",
        "attention, mask or norms of the recomputed rows are wrong: bench/engine/engine.py",
    )  # fmt: skip


def _future(gate: Gate) -> Finding:
    """Another last chunk changes no recomputed row before it."""
    early = gate.some[gate.some < sum(CHUNKS[:-1])] + len(gate.prefix)
    keys, values = gate._pool(gate.fuse(gate.alone, gate.some))
    ids, chunks = gate.ids, gate.chunks
    other = chunks[-1][::-1]
    end = gate.cached
    gate.ids = [*ids[: end - len(other)], *other, *ids[end:]]
    try:
        changed = gate._pool(gate.fuse([*gate.alone[:-1], gate.engine.capture(other)], gate.some))
    finally:
        gate.ids = ids
    off = max(
        distance(changed[0][:, early], keys[:, early]), distance(changed[1][:, early], values[:, early])
    )
    moved = distance(changed[1][:, end - len(other) :], values[:, end - len(other) :])
    return Finding(
        "no row sees the future", off <= EXACT and moved > EXACT,
        f"another last chunk moves earlier rows by {off:.2g}, its own by {moved:.2g}",
        "the positional mask lets a row see later positions: bench/kernels/selected_attention.py",
    )  # fmt: skip


def _stale(gate: Gate) -> Finding:
    """Caches of chunks alone must differ from full prefill's, or the checks above see nothing."""
    size = float(gate.logits.float().abs().max())
    return Finding(
        "stale caches are stale", gate.stale > 10 * EXACT,
        f"nothing recomputed: logits of size {size:.2g} are off by {gate.stale:.2g}",
        "nothing to repair by fusion on this model, or the checks compare a thing with itself",
    )  # fmt: skip


def _transformers(gate: Gate, path: Path) -> Finding:
    """Full prefill is the model: SGLang's logits against `transformers`' in fp32, both here.

    In bf16 they may be further off than `transformers`' own in bf16, but not by more than `ROUNDINGS` times:
    both round, each in its own order.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).to(gate.engine.device)
    ids = torch.tensor([gate.ids], device=gate.engine.device)

    def last() -> torch.Tensor:
        with torch.inference_mode():
            logits: torch.Tensor = model(ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
        return logits

    theirs = last()
    if gate.engine.dtype != torch.float32:
        model = model.to(gate.engine.dtype)
        gate.rounding = distance(last(), theirs)
    off, size = distance(gate.logits.flatten()[: len(theirs)], theirs), float(theirs.abs().max())
    rounds = "" if gate.rounding is None else f"; {gate.engine.dtype} alone by {gate.rounding:.2g}"
    return Finding(
        "full prefill equals transformers", gate.close(off, gate.stale, size),
        f"logits of size {size:.2g} are off by {off:.2g}{rounds}",
        "SGLang runs this model differently (rope scaling, norms, a tied head): scores are not the model's",
    )  # fmt: skip
