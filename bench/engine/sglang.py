"""SGLang 0.5.23, in process: the one module that knows its internals and its version.

Loading and driving follow SGLang's own `sglang/benchmark/one_batch.py` (`load_model`, `extend`,
`decode`). Layers are run one by one, as `forward_split_prefill` of its model classes does, so that
the set of rows may change between layers and the attention of a row may be ours.
"""

from __future__ import annotations

import importlib.metadata
import io
import logging
import os
import sys
import time
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.engine.batched import BatchedCache
from bench.engine.packed_linear import pack_linears
from bench.errors import UserError

VERSION = "0.5.23"
MAX_RUNNING = 64
"""Requests decoded as one batch, at most."""

if not torch.cuda.is_available():
    # Without it the rotary embedding of a machine without a GPU imports vllm.
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

Attend = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(layer module, q [R, Hq*D], k [R, Hkv, D], v [R, Hkv, D]) -> [R, Hq*D]; q and k after RoPE."""


def check_version() -> None:
    """Raise `UserError` where another SGLang than the supported one is installed."""
    try:
        found = importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        raise UserError("sglang is not installed: run `make setup`") from None
    if found != VERSION:
        raise UserError(f"sglang {found} is installed, the engine is written for {VERSION}: run `make setup`")


@dataclass
class Slots:
    """A request's place in SGLang's pools: its scheduler batch and a slot for each position."""

    batch: Any
    at: torch.Tensor
    """[n] int64, slot of each position."""


class Runtime:
    """One model inside SGLang's ModelRunner, with its KV pools.

    dtype is "float32" or "bfloat16"; `pool_tokens` the number of positions the KV pool holds.
    """

    def __init__(self, path: Path, dtype: str, pool_tokens: int, backend: str | None = None) -> None:
        check_version()
        self.path, self.dtype = path, getattr(torch, dtype)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with _muted():
            self._ob, self.model_runner = _load(path, dtype, self.device, pool_tokens, backend)
        self.model = self.model_runner.model
        if not hasattr(self.model, "forward_split_prefill"):
            raise UserError(
                f"{path}: SGLang {VERSION} cannot run {type(self.model).__name__} layer by layer; "
                "use a Llama, Mistral, Qwen2 or Qwen3 model"
            )
        if self.device == "cpu":
            pack_linears(self.model.model.layers, self._ob.UnquantizedLinearMethod)
        config = self.model_runner.model_config
        self.layers: int = config.num_hidden_layers
        self.context_length: int = config.context_len
        self.vocab: int = config.vocab_size
        first = self.model.model.layers[0].self_attn
        self.kv_heads: int = first.attn.tp_k_head_num
        self.head_dim: int = first.attn.qk_head_dim
        self.rotary = first.rotary_emb
        self.pool = self.model_runner.token_to_kv_pool
        self.pool_tokens: int = self.model_runner.max_total_num_tokens
        windows = {layer.self_attn.attn.sliding_window_size for layer in self.model.model.layers}
        if windows - {None, -1}:
            raise UserError(
                f"{path}: sliding-window attention {windows} is not supported by cache fusion here"
            )
        self.head_began = 0.0
        """`time.perf_counter()` when the output head of the last forward pass began."""
        self.model.logits_processor.register_forward_pre_hook(self._mark_head)
        self._before_rope: list[torch.Tensor] | None = None
        for rotary in {
            id(m): m for m in self.model.modules() if m.__class__ is self.rotary.__class__
        }.values():
            rotary.register_forward_pre_hook(self._see_rope)

    def _mark_head(self, *_: Any) -> None:
        self.synchronize()
        self.head_began = time.perf_counter()

    def _see_rope(self, _module: Any, args: tuple[Any, ...]) -> None:
        if self._before_rope is not None:
            self._before_rope.append(args[2].clone())

    # --- slots -------------------------------------------------------------------------------

    def clear(self) -> None:
        """Free every slot."""
        self.model_runner.req_to_token_pool.clear()
        self.model_runner.token_to_kv_pool_allocator.clear()

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _request(self, ids: Sequence[int]) -> Any:
        ob = self._ob
        req = ob.Req(
            rid="0",
            origin_input_text="",
            origin_input_ids=array("q", ids),
            sampling_params=ob.SamplingParams(temperature=0, max_new_tokens=1 << 20),
        )
        req.full_untruncated_fill_ids = req.origin_input_ids
        req.logprob_start_len, req.extend_end = -1, len(ids)
        return req

    def allocate(self, ids: Sequence[int], held: Slots | None = None) -> Slots:
        """Give every position of the prompt a slot, as SGLang's extend does. Raises `UserError`.

        The positions of `held` have theirs already; it is used up.
        """
        if len(ids) > self.pool_tokens:
            raise UserError(
                f"a request of {len(ids)} tokens does not fit into the KV pool of {self.pool_tokens}; "
                "ask for fewer or smaller chunks, or use a GPU with more memory"
            )
        if held is None:
            req = self._request(ids)
        else:  # goes on as `prepare_extend_inputs_for_correctness_test` of one_batch.py does
            (req,) = held.batch.reqs
            req.prefix_len = len(held.at)
            req.origin_input_ids = array("q", ids)
            req.full_untruncated_fill_ids, req.extend_end = req.origin_input_ids, len(ids)
        ob, runner = self._ob, self.model_runner
        batch = ob.ScheduleBatch.init_new(
            reqs=[req],
            req_to_token_pool=runner.req_to_token_pool,
            token_to_kv_pool_allocator=runner.token_to_kv_pool_allocator,
            tree_cache=ob.TreeCacheNamespace(
                page_size=ob.get_schedule().page_size,
                device=runner.device,
                token_to_kv_pool_allocator=runner.token_to_kv_pool_allocator,
            ),
            model_config=runner.model_config,
            enable_overlap=False,
            spec_algorithm=ob.SpeculativeAlgorithm.NONE,
        )
        batch.prepare_for_extend()
        if batch.input_ids is None:
            batch.input_ids = batch.prefill_input_ids_cpu.to(batch.device, non_blocking=True)
            batch.prefill_input_ids_cpu = None
        new = batch.out_cache_loc.long()
        return Slots(batch, new if held is None else torch.cat((held.at, new)))

    def release(self, slots: Slots) -> None:
        """Give one request's slots back."""
        self.model_runner.token_to_kv_pool_allocator.free(slots.at)
        for req in slots.batch.reqs:
            self.model_runner.req_to_token_pool.free(req)

    def keys(self, layer: int) -> torch.Tensor:
        """The pool's keys of a layer, [slots, Hkv, D], after RoPE."""
        buffer: torch.Tensor = self.pool.get_key_buffer(layer)
        return buffer

    def values(self, layer: int) -> torch.Tensor:
        """The pool's values of a layer, [slots, Hkv, D]."""
        buffer: torch.Tensor = self.pool.get_value_buffer(layer)
        return buffer

    # --- SGLang's own forward passes -----------------------------------------------------------

    @torch.no_grad()
    def prefill(self, ids: Sequence[int], held: Slots | None = None) -> tuple[torch.Tensor, Slots]:
        """Full prefill: SGLang's own extend with its own backend. Returns logits [vocab] fp32, slots.

        `held` are the slots of a prompt's beginning that was prefilled before: only what follows is
        computed, as after a hit of SGLang's radix cache.
        """
        slots = self.allocate(ids, held)
        forward = self._forward_batch(slots)
        logits = self.model_runner.forward(forward).logits_output.next_token_logits
        return logits[0, : self.vocab].float(), slots

    @torch.no_grad()
    def decode(
        self, running: Sequence[Slots], tokens: Sequence[int], stop: frozenset[int], limit: int
    ) -> list[list[int]]:
        """Greedy decoding of several requests as one batch, each from its first token on.

        Returns each request's new token ids (first token included, stop token excluded), at most
        `limit`. The slots are used up: the batches are merged into the first.
        """
        out = [[t] if t not in stop else [] for t in tokens]
        batch = running[0].batch
        for other in running[1:]:
            batch.merge_batch(other.batch)
        alive = [i for i, t in enumerate(tokens) if t not in stop]
        if len(alive) < len(tokens):
            batch.filter_batch(keep_indices=alive)
        last = [tokens[i] for i in alive]
        cache = BatchedCache(self, limit)
        for _ in range(limit - 1):
            if not alive:
                break
            batch.input_ids = torch.tensor(last, dtype=torch.int64, device=self.device)
            batch.prepare_for_decode()
            forward = self._ob.ForwardBatch.init_new(
                batch, self.model_runner, return_hidden_states_before_norm=False
            )
            cache.step(forward)
            with self.attention(cache.attend) if self.device == "cpu" else nullcontext():
                logits = self.model_runner.forward(forward).logits_output.next_token_logits
            logits = logits[:, : self.vocab]
            if not bool(torch.isfinite(logits).all()):
                raise FloatingPointError("logits that are not finite while decoding")
            last = logits.argmax(-1).tolist()
            keep = [k for k, token in enumerate(last) if token not in stop]
            for k in keep:
                out[alive[k]].append(last[k])
            if len(keep) < len(alive):
                alive, last = [alive[k] for k in keep], [last[k] for k in keep]
                batch.filter_batch(keep_indices=keep)
                cache.keep(keep)
        return out

    # --- layer by layer, with an attention of ours ---------------------------------------------

    def _forward_batch(self, slots: Slots) -> Any:
        return self._ob.ForwardBatch.init_new(
            slots.batch, self.model_runner, return_hidden_states_before_norm=False
        )

    def rows(self, ids: torch.Tensor, positions: torch.Tensor, slots: Slots | None) -> Any:
        """A ForwardBatch for chosen rows of one request; without slots nothing reaches the pool."""
        n = len(ids)
        lengths = torch.tensor([n], dtype=torch.int32, device=self.device)
        if slots is not None:
            batch = self._forward_batch(slots)
            batch.input_ids, batch.positions = ids, positions
            batch.out_cache_loc, batch.extend_num_tokens = slots.at[positions], n
        else:
            zero = torch.zeros(1, dtype=torch.int64, device=self.device)
            batch = self._ob.ForwardBatch(
                forward_mode=self._ob.ForwardMode.EXTEND,
                batch_size=1,
                input_ids=ids,
                req_pool_indices=zero,
                seq_lens=lengths.long(),
                out_cache_loc=torch.zeros(n, dtype=torch.int64, device=self.device),
                seq_lens_sum=n,
                positions=positions,
                extend_num_tokens=n,
            )
            batch.seq_lens_cpu = torch.tensor([n])
        batch.extend_seq_lens, batch.extend_seq_lens_cpu = lengths, [n]
        batch.extend_prefix_lens = torch.zeros_like(lengths)
        batch.extend_prefix_lens_cpu = [0]
        return batch

    @contextmanager
    def attention(self, attend: Attend) -> Iterator[None]:
        """Run the layers inside with `attend` in place of SGLang's attention backend."""
        ob = self._ob
        backend = ob.RowsBackend(self.model_runner, attend)
        shared = getattr(self.model, "shared_experts_config", None)
        with (
            torch.no_grad(),
            ob.get_model().override(shared_experts=shared),
            ob.forward_context(ob.ForwardContext(attn_backend=backend)),
        ):
            yield

    @contextmanager
    def own_attention(self) -> Iterator[None]:
        """Run the layers inside with SGLang's own backend: the control that shows why ours is needed."""
        with self._ob.forward_context(self._ob.ForwardContext(attn_backend=self.model_runner.attn_backend)):
            yield

    def embed(self, batch: Any) -> torch.Tensor:
        """Embed the rows' tokens: the hidden states that enter layer 0."""
        self._ob.residual_batch.start(batch)
        hidden: torch.Tensor = self.model.model.embed_tokens(batch.input_ids)
        return hidden

    def layer(self, layer: int, batch: Any, hidden: torch.Tensor) -> torch.Tensor:
        """Run one decoder layer over the rows of `batch`."""
        out: torch.Tensor = self.model.model.layers[layer](batch.positions, hidden, batch)
        return out

    def narrow(self, batch: Any, kept: torch.Tensor) -> None:
        """Inside a layer's attention: only the rows `kept` (indices, [n] int64) go on, in this layer too.

        The layer's input waits in the residual stream until attention is done, so it can be narrowed there
        and nothing is computed twice. The attention at hand must return these rows alone.
        """
        stream = batch.residual_stream
        assert stream.pending is None, "the layer's input was not written to the residual stream yet"
        stream.residual = stream.residual[kept]
        batch.input_ids, batch.positions = batch.input_ids[kept], batch.positions[kept]
        batch.out_cache_loc, batch.extend_num_tokens = batch.out_cache_loc[kept], len(kept)
        batch.extend_seq_lens = torch.full_like(batch.extend_seq_lens, len(kept))
        batch.extend_seq_lens_cpu = [len(kept)]

    def head(self, batch: Any, hidden: torch.Tensor) -> torch.Tensor:
        """Final norm and output head of the last row: logits [vocab] fp32."""
        normed = self._ob.residual_batch.final_norm(hidden, batch, self.model.model.norm)
        logits = self.model.logits_processor(batch.input_ids, normed, self.model.lm_head, batch)
        last: torch.Tensor = logits.next_token_logits[0, : self.vocab].float()
        return last

    @contextmanager
    def keys_before_rope(self) -> Iterator[list[torch.Tensor]]:
        """Collect each layer's keys [rows, Hkv*D] as they enter RoPE (after q/k-norm), in layer order."""
        seen: list[torch.Tensor] = []
        self._before_rope = seen
        try:
            yield seen
        finally:
            self._before_rope = None


@contextmanager
def _muted() -> Iterator[None]:
    """Hold back what SGLang prints while it loads; printed after all where loading fails."""
    held = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(held), redirect_stderr(held):
            warnings.simplefilter("ignore")
            yield
    except BaseException:
        sys.stderr.write(held.getvalue())
        raise
    finally:  # SGLang's handlers write to what was held back
        logging.basicConfig(level=logging.ERROR, force=True)


_parallel_ready = False


def _load(path: Path, dtype: str, device: str, pool_tokens: int, backend: str | None) -> tuple[Any, Any]:
    """Load the model as SGLang's one-batch benchmark does. Returns its names and its runner.

    Unlike there a second model may follow in the same process: the parallel groups are built once.
    """
    global _parallel_ready
    from bench.engine import _sglang_imports as ob

    chosen = backend or ("torch_native" if device == "cpu" else None)
    args = ob.ServerArgs(
        model_path=str(path), device=device, dtype=dtype, max_total_tokens=pool_tokens, log_level="error",
        disable_overlap_schedule=True, disable_radix_cache=True, random_seed=0, skip_server_warmup=True,
        max_running_requests=MAX_RUNNING, **({"attention_backend": chosen} if chosen else {}),
    )  # fmt: skip
    args.resolve_once()
    ob.set_envs_and_config(args)
    ports = ob.PortArgs.init_new(args)
    world = ob.one_batch.spawn_world_rank(args, tp_rank=0, pp_rank=0)
    ob.one_batch.publish(args, role="scheduler", ranks=ob.one_batch.SpawnRanks(world_rank=world, gpu_id=0))
    ob.one_batch._init_process_global_configs()
    config = ob.ModelConfig.from_server_args(args)
    if not _parallel_ready:
        ob.bootstrap.init_parallel_runtime(server_args=args, device=device, dist_port=ports.nccl_port)
        _parallel_ready = True
    ob.bootstrap.init_layer_runtime(model_config=config)
    runner = ob.ModelRunner(
        model_config=config, mem_fraction_static=ob.resolving_view(args).mem_fraction_static, gpu_id=0,
        nccl_port=ports.nccl_port, server_args=args,
    )  # fmt: skip
    runner.alloc_memory_pool()
    runner.init_attention_backends()
    runner.init_cuda_graphs()
    return ob, runner
