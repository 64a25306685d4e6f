"""Run an experiment: plan it, measure what is left of it, keep its rows."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.assets.models import ModelRef, resolve
from bench.bandwidth import Bandwidth
from bench.data.requests import build_requests, dataset_of
from bench.engine.engine import Engine
from bench.errors import UserError
from bench.experiments import Sweep
from bench.methods import NamedMethod, method_of
from bench.request import Request
from bench.results.packed import kept
from bench.results.provenance import peak_rss_bytes
from bench.results.reader import ROWS, read_run_info
from bench.results.shown import PROMPTS, SELECTIONS, prompt_of
from bench.results.timeline import TIMELINES
from bench.results.writer import RowWriter, disk_error, write_json
from bench.runners.describe import description, difference, note, noted, warn
from bench.runners.display import Display
from bench.runners.dry_run import show_estimate
from bench.runners.plan import Cell, canonical, cells_of, interleaved, source_sha256
from bench.runners.precision import faster_dtype
from bench.runners.prepare import Preparer
from bench.runners.profiles import calibrate, profiled, refuse_same_task
from bench.runners.storage import bandwidth_unit, kernel_throttle_of, store_of
from bench.runners.unit import BATCH, Bench
from bench.store.buffers import Buffers
from bench.store.kernel_throttle import KernelThrottle
from bench.store.reader import Reads
from bench.trust.ask import ask, require

WARMUP_SEED = 1_000_033
"""Warm-up requests come from another seed than any measured set."""


@dataclass
class Block:
    """The cells and requests of one model and one dataset."""

    model: ModelRef
    task: str
    metric: str
    cells: list[Cell]
    requests: list[Request]
    provenance: dict[str, Any]


@dataclass
class Plan:
    """A run, resolved: nothing of it depends on what is already measured."""

    sweep: Sweep
    dtype: str
    dtype_seconds: dict[str, float]
    methods: list[NamedMethod]
    blocks: list[Block]

    @property
    def identity(self) -> str:
        """Hash of everything that decides the rows: cells, and requests by the first of their nested list.

        How many there are is no part of it: a run may grow.
        """
        parts = [[[c.key for c in b.cells], b.requests[0].sha256] for b in self.blocks]
        return hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]


def plan(sweep: Sweep, dtype: str | None = None) -> Plan:
    """Resolve models, methods and requests. `dtype` is that of the run to go on with, if there is one."""
    methods = [method_of(spec) for spec in sweep.methods]
    names = [canonical([m.name, m.params]) for m in methods]
    if len(set(names)) < len(names):
        raise UserError("methods: one is named twice with the same parameters")
    refuse_same_task(sweep, methods)
    seconds: dict[str, float] = {}
    if sweep.dtype != "auto":
        dtype = sweep.dtype
    elif dtype is None:
        dtype, seconds = faster_dtype()
    blocks = []
    models = [resolve(name) for name in sweep.models]
    everything = {"models": [m.name for m in models], "datasets": sweep.labels}
    for what, named in everything.items():
        for name in named:
            if named.count(name) > 1:
                raise UserError(f"{what}: {name!r} is there twice; rows are told apart by it")
    for model in models:
        tokenizer = tokenizer_of(model)
        made = [dataset_of(task.name, task.options) for task in sweep.datasets]
        for number, (task, label, dataset) in enumerate(zip(sweep.datasets, sweep.labels, made, strict=True)):
            if (
                dataset in made[:number]
            ):  # their fields are equal: options that are the defaults in other words
                raise UserError(f"datasets: {label!r} is there twice, its options come to the same")
            shape = (sweep.chunks, sweep.chunk_tokens, sweep.requests)
            requests, provenance = build_requests(
                task.name, tokenizer, *shape, sweep.seed, task.options, label
            )
            source = source_sha256(str(sys.modules[type(dataset).__module__].__file__))
            cells = cells_of(sweep, model.name, model.revision, dtype, task, label, source, methods)
            blocks.append(Block(model, label, dataset.scored_by, cells, requests, provenance))
    return Plan(sweep, dtype, seconds, methods, blocks)


def tokenizer_of(model: ModelRef) -> Any:
    """The model's tokenizer, from its checkpoint folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model.path)


def run(
    sweep: Sweep, out: Path, console: Console, *, fresh: bool = False, dry: bool = False,
    trust_model: bool = False,
) -> int:  # fmt: skip
    """Measure what is left of a run. Returns the number of rows that failed.

    Raises `UserError` where the folder holds another run, or cannot be written, and where a model does not
    compute here what it should (`bench.trust`), unless `trust_model` goes on all the same.
    """
    before = {} if fresh else _earlier(out)
    the_plan = plan(sweep, before.get("dtype"))
    if before and before.get("identity") != the_plan.identity:
        raise UserError(
            f"{out} holds a run of another configuration ({difference(before, the_plan)}); "
            "give another --out, or --fresh to start over"
        )
    if dry:
        show_estimate(the_plan, console)
        return 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        if fresh:
            for name in (ROWS, TIMELINES, SELECTIONS, PROMPTS):
                (out / name).unlink(missing_ok=True)
                (out / f"{name}.gz").unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(out, error) from error
    expected = {(b.model.name, b.task): len(b.cells) for b in the_plan.blocks}
    with contextlib.closing(RowWriter(out / ROWS, expected)) as writer:
        left = _left(the_plan, writer)
        _check_requests(the_plan, writer, out)
        if before and not any(todo for _, todo in left):  # run.json tells of those who measured
            return _measure(the_plan, left, writer, out, console, trust_model)
        write_json(out / "run.json", description(the_plan, before))
        try:
            return _measure(the_plan, left, writer, out, console, trust_model)
        finally:
            note(out, "memory", "peak_rss_bytes", peak_rss_bytes())


Left = list[tuple[Block, list[Request]]]
"""What is to be measured of each block."""


def _left(the_plan: Plan, writer: RowWriter) -> Left:
    return [
        (b, [r for r in b.requests if (b.model.name, b.task, r.id) not in writer.done])
        for b in the_plan.blocks
    ]


def _check_requests(the_plan: Plan, writer: RowWriter, out: Path) -> None:
    """Raise `UserError` where a request that was measured is not the one of this plan: data that changed."""
    planned = {(b.model.name, b.task, r.id): r.sha256 for b in the_plan.blocks for r in b.requests}
    for row in writer.rows:
        if planned.get((row.model, row.dataset, row.request), row.request_sha256) != row.request_sha256:
            raise UserError(
                f"{out}: request {row.request} of {row.dataset} is another one than was measured there; "
                "give another --out, or --fresh to start over"
            )


def _measure(
    the_plan: Plan, left: Left, writer: RowWriter, out: Path, console: Console, trust_model: bool
) -> int:
    totals: dict[str, int] = {}
    for block in the_plan.blocks:
        for cell in block.cells:
            totals[cell.method.name] = totals.get(cell.method.name, 0) + len(block.requests)
    failed = sum(row.status in ("failed", "oom") for row in writer.rows)
    engine: Engine | None = None
    loaded: ModelRef | None = None
    buffers: Buffers | None = None
    with contextlib.ExitStack() as stack:
        kernel = kernel_throttle_of(the_plan.sweep, out)
        if kernel is not None:
            stack.callback(kernel.close)
        display = stack.enter_context(Display(console, totals, sum(len(todo) for _, todo in left)))
        display.reuse(writer.rows)
        for block, todo in left:
            if not todo:
                continue
            cold = engine is None or loaded != block.model
            if engine is None or cold:
                engine = None  # the old model's memory goes before the new one comes
                gc.unfreeze()
                gc.collect()
                display.start(None, f"loading {block.model.name}")
                same = [b for b in the_plan.blocks if b.model == block.model]
                engine, loaded = Engine(block.model.path, the_plan.dtype, _pool_tokens(same)), block.model
                display.start(None, f"checking {block.model.name}")
                _trust(engine, block.model, trust_model, display, out)
                gc.freeze()  # what is loaded need not be looked through before each request
                stack.callback(gc.unfreeze)
            store = store_of(the_plan.sweep, block.model, the_plan.dtype, out)
            if buffers is None:
                buffers = Buffers(pinned=engine.device == "cuda")
            with contextlib.closing(Reads(store, engine.device, the_plan.sweep.overlap, buffers)) as reads:
                failed += _measure_block(
                    the_plan, block, todo, engine, writer, display, out, reads, kernel, cold=cold
                )
    return failed


def _trust(engine: Engine, model: ModelRef, trusted: bool, display: Display, out: Path) -> None:
    """Ask the gate of a model, note its answer, and stop where it fails."""

    def remark(text: str) -> None:
        display.note(text)
        warn(out, f"{model.name}: {text}")

    answer = ask(engine, model.path, model.revision)
    note(out, "trust", model.name, {**answer.recorded(), "trusted": trusted and bool(answer.failed)})
    require(answer, model.name, trusted, remark)


def _measure_block(
    the_plan: Plan, block: Block, todo: list[Request], engine: Engine, writer: RowWriter,
    display: Display, out: Path, reads: Reads, kernel: KernelThrottle | None, *, cold: bool,
) -> int:  # fmt: skip
    sweep, failed = the_plan.sweep, 0
    for request in block.requests:
        engine.check_length(len(request.ids) + request.max_new_tokens, f"{block.task}, request {request.id}")
    tokenizer = tokenizer_of(block.model)

    def remark(text: str) -> None:
        display.note(text)
        warn(out, f"{block.model.name}, {block.task}: {text}")

    preparer = Preparer(engine, reads, tokenizer, block.model.revision, sweep.chunk_prefix, remark)
    display.start(None, f"{block.model.name}, {block.task}: offline preparation")
    found, provenance = calibrate(sweep, the_plan.methods, preparer, block.requests, remark)
    profiles = {identity: profile.mean for identity, profile in found.items()}
    kept_profiles = {m.name + canonical(m.params): m.identity for m in profiled(the_plan.methods)}
    note(out, "profiles", block.model.name, {name: profiles[i] for name, i in kept_profiles.items()})
    if found:
        layers = {name: found[i].recorded() for name, i in kept_profiles.items()}
        note(out, "calibration", block.model.name, {**provenance, "methods": layers})
    bench = Bench(
        engine, reads, preparer, profiles, stop_ids(block.model, tokenizer), block.metric,
        sweep.chunks, sweep.chunk_tokens, out / "errors.log", None, sweep.read_latency_ms / 1e3, kernel,
    )  # fmt: skip
    # Outside the measured set, in its shape: what a first pass warms must not favour a cell.
    for request in _warmup(sweep, tokenizer) if cold else []:
        display.start(None, f"{block.model.name}, {block.task}: warm-up")
        bench.warm(request, interleaved(_middle(block.cells), request, sweep.seed))
    bench.bandwidth_unit = _unit(the_plan, block, engine, preparer, out)
    keep = {request.id for request in block.requests[: sweep.shown]}
    for request in todo:
        label = f"{block.model.name}, {block.task}, request {request.id}"
        display.start(None, label)
        order = interleaved(block.cells, request, sweep.seed)
        rows = bench.run(request, order, display.start)
        writer.append(rows)
        if request.id in keep:
            writer.append_beside(TIMELINES, bench.timelines)
            writer.append_beside(SELECTIONS, bench.selections)
            writer.append_beside(PROMPTS, [prompt_of(request, block.model.name, tokenizer)])
        display.finish(rows, label)
        failed += sum(row.status in ("failed", "oom") for row in rows)
    return failed


def _middle(cells: list[Cell]) -> list[Cell]:
    """Each method at a middle rho, not throttled."""
    rhos = sorted({cell.rho for cell in cells})
    some = [c for c in cells if c.rho in (0.0, 1.0, rhos[len(rhos) // 2])]
    unthrottled = Bandwidth.of("none")
    return list({(c.method.identity, c.rho): replace(c, bandwidth=unthrottled) for c in some}.values())


def _unit(the_plan: Plan, block: Block, engine: Engine, preparer: Preparer, out: Path) -> float | None:
    """1x of bandwidth, where a cell is throttled; the one of the run's first session, if there was one."""
    if all(cell.bandwidth.text == "none" for cell in block.cells):
        return None
    name = f"{block.model.name}, {block.task}"
    unit: float | None = noted(out, "bandwidth_units", name)
    if unit is None:
        unit = bandwidth_unit(engine, preparer, max(block.requests, key=lambda r: r.context_tokens))
        note(out, "bandwidth_units", name, unit)
    return unit


def _warmup(sweep: Sweep, tokenizer: Any) -> list[Request]:
    if not sweep.warmup:
        return []
    shape = (sweep.chunks, sweep.chunk_tokens, sweep.warmup)
    return build_requests("multihop", tokenizer, *shape, WARMUP_SEED, {"hops": 1})[0]


def stop_ids(model: ModelRef, tokenizer: Any) -> frozenset[int]:
    """Token ids that end an answer: the generation configuration's and the tokenizer's own."""
    path = model.path / "generation_config.json"
    named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.exists() else None
    ids = named if isinstance(named, list) else [named]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


def _pool_tokens(blocks: list[Block]) -> int:
    """Slots for the cells of one request at a time, as many as are decoded together, and a full prefill
    between them."""
    return max(
        (min(BATCH, len(b.cells)) + 1) * (len(r.ids) + r.max_new_tokens + 8)
        for b in blocks for r in b.requests
    ) + 256  # fmt: skip


def _earlier(out: Path) -> dict[str, Any]:
    """run.json of the run to go on with; empty where there is none. Raises `UserError`."""
    rows = kept(out / ROWS)
    if rows is not None and rows.suffix == ".gz":
        raise UserError(f"{out} holds a finished run, compressed; give another --out, or --fresh")
    try:
        described = read_run_info(out)
    except UserError as error:
        raise UserError(f"{error}; give another --out") from error
    if rows is not None and not described:
        raise UserError(f"{out} has {ROWS} but no run.json; give another --out")
    return described
