"""`qcbench check-method`."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli import main
from bench.conformance.checks import CHECKS
from bench.engine import engine as engine_module


@pytest.fixture(autouse=True)
def _one_engine(engine_of, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine at hand in place of one more load; the model folder is written all the same."""
    from bench.conformance import show

    def at_hand(path: Path, dtype: str, pool_tokens: int):
        assert (path / "config.json").exists()
        assert (dtype, pool_tokens) == ("float32", show.POOL_TOKENS)
        return engine_of("llama")

    assert show.Engine is engine_module.Engine
    monkeypatch.setattr(show, "Engine", at_hand)


def test_a_sound_method_gives_a_line_a_check_and_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-method", "epic"]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == "epic on a tiny random model of 4 layers, fp32"
    assert len(lines) == len(CHECKS)
    assert "ok       budget is exact" in lines
    assert "skipped  narrow keeps the budget: it has no narrow()" in lines
    assert last == f"{len(CHECKS) - 1} ok, 1 skipped"


def test_a_broken_file_gives_what_broke_and_status_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from dataclasses import dataclass\nimport torch\nfrom bench.method import Method\n"
        "@dataclass\nclass Mine(Method):\n    '''Mine.'''\n"
        "    def select(self, request, view, budget):\n        return torch.randperm(budget)[:budget]\n"
        "    def budget(self, request, rho):\n        return max(1, super().budget(request, rho))\n"
        "METHOD = Mine\n"
    )
    assert main(["check-method", str(mine)]) == 1
    out = capsys.readouterr().out
    expected = "budget() gives 1 where floor(rho N) is 0; look at budget() in mine.py"
    assert f"FAILED   budget is exact: {expected}" in out.splitlines()
    assert " failed" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "unknown method"),
        (["./nope.py"], "not there"),
        (["epic", "--model", "nope"], "unknown model"),
        (["epic", "--layers", "1"], "at least 2"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["check-method", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
