"""Every method and every released variant keeps the rules, on every architecture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.assets.models import resolve
from bench.conformance import Outcome, Stand, check_all, specifications
from bench.conformance.checks import CHECKS
from bench.conformance.checks.leak import no_row_sees_the_future
from bench.conformance.stand import USUAL
from bench.conformance.suite import check_one
from bench.conformance.tiny import ARCHITECTURES, Bytes
from bench.conformance.truncated import first_layers
from bench.method import Method
from bench.methods import method_of

SPECIFICATIONS = specifications()
LEAK = "no row sees the future"


CAPTURED: dict[Path, dict] = {}
"""Chunk caches by model, forwarded once for all methods."""


def stand_of(engine, tokenizer, spec: str) -> Stand:
    return Stand(engine, tokenizer, spec, CAPTURED.setdefault(engine.runtime.path, {}))


def outcomes(engine, tokenizer, spec: str) -> dict[str, Outcome]:
    """By check. Each of them was asked, and none failed."""
    found = {o.check: o for o in check_all(stand_of(engine, tokenizer, spec))}
    assert len(found) == len(CHECKS)
    failed = [str(o) for o in found.values() if o.status == "failed"]
    assert not failed, "\n".join(failed)
    return found


def expected_skips(method: Method) -> set[str]:
    """What does not apply to a method, from what it says of itself."""
    skips = set()
    nominal = method.nominal(len(USUAL), USUAL[0])
    if type(method).narrow is Method.narrow:
        skips.add("narrow keeps the budget")
    if nominal is not None and method.uses_cache:
        skips.add("rho 1 equals full prefill")  # unless its own k tokens are all of every chunk
    if nominal not in (None, 0.0):
        skips.add("k 0 equals direct reuse")
    if nominal == 0.0:
        skips.add(LEAK)
    if not method.uses_cache:
        skips |= {"nothing is read around the view", "tensors are left unchanged"}
    return skips


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_a_method_keeps_the_rules(engine_of, architecture: str, spec: str) -> None:
    found, method = outcomes(engine_of(architecture), Bytes(), spec), method_of(spec).method
    assert (found[LEAK].status == "known") == (method.mask == "released")
    skipped = {o.check for o in found.values() if o.status == "skipped"}
    assert skipped <= expected_skips(method), "a check that applies was skipped"


@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_an_engine_that_leaks_is_found_whatever_the_method(
    engine_of, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those that recompute nothing, everything, or one run of tokens up to the end."""
    engine = engine_of("llama")
    fuse = engine.fuse
    monkeypatch.setattr(engine, "fuse", lambda *args: fuse(*args[:6], "released"))
    leak = check_one(no_row_sees_the_future, stand_of(engine, Bytes(), spec))
    released = method_of(spec).method.mask == "released"
    blind = {"direct_reuse": "skipped", "full_prefill": "ok", "cold_prefill": "ok", "last_tokens": "ok"}
    assert leak.status == blind.get(spec, "known" if released else "failed")


@pytest.fixture(scope="module")
def first_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first four layers of the smaller default model."""
    folder = tmp_path_factory.mktemp("first-four")
    return first_layers(resolve("smollm2-135m").path, 4, folder)


@pytest.mark.models
@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_a_method_keeps_the_rules_on_real_weights(engine_of: Callable, first_four: Path, spec: str) -> None:
    from transformers import AutoTokenizer

    engine = engine_of(str(first_four))
    assert engine.layers == 4
    outcomes(engine, AutoTokenizer.from_pretrained(first_four), spec)


def test_released_variants_are_among_them() -> None:
    assert {"qcfuse", "epic[variant=released]", "cacheblend[variant=released]"} <= set(SPECIFICATIONS)
    for spec in SPECIFICATIONS:
        assert method_of(spec).params.get("variant", "paper") == ("released" if "[" in spec else "paper")
