"""A method broken on purpose for every check: a check that cannot fail would show here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from bench.conformance import Outcome, Stand, check_all
from bench.conformance.checks import CHECKS
from bench.conformance.suite import check_one, name_of
from bench.conformance.tiny import Bytes
from tests.conformance._sources import BROKEN, HEAD, SELECT, SOUND, SOUNDS

LEAK = "no row sees the future"
CAPTURED: dict = {}
"""Chunk caches of the one model, forwarded once."""
RELEASED = '    mask: str = "released"\n'


def outcomes(engine, folder: Path, body: str, names: Iterable[str]) -> dict[str, Outcome]:
    """Those checks alone, on a stand where the ones before have left nothing."""
    mine = folder / "mine.py"
    mine.write_text(HEAD + body + "\n\nMETHOD = Mine\n")
    checks = {name_of(check): check for check in CHECKS}
    return {name: check_one(checks[name], Stand(engine, Bytes(), str(mine), CAPTURED)) for name in names}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_method_fails_the_check_for_it(engine_of, tmp_path: Path, name: str) -> None:
    body, expected = BROKEN[name]
    found = outcomes(engine_of("llama"), tmp_path, body, expected)
    assert {o.check for o in found.values() if o.status == "failed"} == expected, found
    for check in expected:
        assert "look at " in found[check].why
        assert "mine.py" in found[check].why


@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_method_fails_none(engine_of, tmp_path: Path, name: str) -> None:
    found = outcomes(engine_of("llama"), tmp_path, SOUNDS[name], map(name_of, CHECKS))
    assert not [str(o) for o in found.values() if o.status in ("failed", "known")]


def test_every_check_is_shown_to_fail() -> None:
    assert set().union(*(checks for _, checks in BROKEN.values())) == {name_of(check) for check in CHECKS}


def test_an_engine_that_leaks_is_found_under_an_exact_mask(
    engine_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of("llama")
    monkeypatch.setattr(engine, "fuse", _with_mask(engine.fuse, "released"))
    leak = outcomes(engine, tmp_path, SOUND, [LEAK])[LEAK]
    assert leak.status == "failed"
    assert "with a later chunk" in leak.why


def test_the_released_mask_leaks_and_is_known_for_it(engine_of, tmp_path: Path) -> None:
    leak = outcomes(engine_of("llama"), tmp_path, RELEASED + SOUND, [LEAK])[LEAK]
    assert (leak.status, leak.why) == ("known", "leaks, as its mask is the released one")


def test_a_released_mask_that_does_not_reach_the_engine_has_failed(
    engine_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of("llama")
    monkeypatch.setattr(engine, "fuse", _with_mask(engine.fuse, "exact"))
    leak = outcomes(engine, tmp_path, RELEASED + SOUND, [LEAK])[LEAK]
    assert leak.status == "failed"
    assert "no row sees a later chunk" in leak.why


def _with_mask(fuse, mask: str):
    def fuse_under(ids, cached, source, positions, prefix=0, narrow=None, _mask="exact"):
        return partial(fuse, mask=mask)(ids, cached, source, positions, prefix, narrow)

    return fuse_under


def test_an_error_names_the_methods_own_line(engine_of, tmp_path: Path) -> None:
    body = SELECT.format("return helper(budget)") + "\n\ndef helper(budget):\n    return [][budget]\n"
    failed = outcomes(engine_of("llama"), tmp_path, body, ["budget is exact"])["budget is exact"]
    line = (HEAD + body).splitlines().index("    return [][budget]") + 1
    assert failed.why == f"IndexError: list index out of range; look at mine.py, line {line}, in helper()"


def test_one_fault_is_told_once(engine_of, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(HEAD + SELECT.format("return torch.arange(budget + 1)") + "\n\nMETHOD = Mine\n")
    found = list(check_all(Stand(engine_of("llama"), Bytes(), str(mine))))
    assert [o.check for o in found if o.status == "failed"] == ["budget is exact"]
    assert found[2].why == "the method stops as in 'budget is exact'"
