"""The offline profile: agreement of its layers, how many requests it takes, what it must not be taken on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.cli import main
from bench.errors import UserError
from bench.methods import NamedMethod, method_of
from bench.request import Request
from bench.runners import profiles
from bench.runners.profiles import AGREEMENT, LEAST, STEP, Profile, adaptive, agreement, refuse_shared


def request(number: int, query: tuple[int, ...] = (1, 2)) -> Request:
    return Request(f"r{number}", "x", (), ((number, 7), (number, 8)), query, ("a",), 4, (0,))


def test_layers_that_stand_out_agree_in_every_draw() -> None:
    rows = np.tile([0.0, 0.9, 0.1, 0.8, 0.7], (16, 1))
    assert agreement(rows, range(16), 3) == 1.0


def test_the_share_of_draws_is_that_of_a_bootstrap_by_hand() -> None:
    """Two contexts of which one favours layer 0 a lot and the other layer 1 a little: layer 0 is best unless
    the second is drawn twice, a quarter of the draws."""
    rows = np.array([[1.0, 0.0], [0.0, 0.5]])
    assert agreement(rows, ["a", "b"], 1) == pytest.approx(0.75, abs=0.05)


def test_requests_of_one_context_are_drawn_together() -> None:
    rows = np.array([[1.0, 0.0]] * 8 + [[0.0, 0.9]] * 8)
    assert agreement(rows, ["a"] * 8 + ["b"] * 8, 1) == pytest.approx(0.75, abs=0.05)
    assert agreement(rows[:8], ["a"] * 8, 1) == 0.0, "one context says nothing"


def taken_until(settled: int, most: int) -> Profile:
    """Rows without order up to a number of requests, and clear ones from there on."""
    rng = np.random.default_rng(5)
    noise = rng.permuted(np.tile([0.0, 0.0, 0.0, 1.0], (most, 1)), axis=1)

    def measure(method: NamedMethod, requests: Sequence[Request]) -> list[list[float]]:
        rows = noise[: len(requests)].copy()
        if len(requests) >= settled:
            rows += [9.0, 8.0, 7.0, 0.0]
        return [list(map(float, row)) for row in rows]

    return adaptive(method_of("qcfuse"), lambda n: [request(i) for i in range(n)], most, measure)


def test_calibration_stops_where_the_layers_hold_still() -> None:
    found = taken_until(settled=LEAST + 2 * STEP, most=400)
    assert found.requests == LEAST + 2 * STEP
    assert found.layers == [0, 1, 2]
    assert found.agreement is not None
    assert found.agreement >= AGREEMENT


def test_calibration_ends_at_its_most_and_says_how_far_it_got() -> None:
    found = taken_until(settled=10_000, most=LEAST + STEP + 3)
    assert found.requests == LEAST + STEP + 3
    assert found.agreement is not None
    assert found.agreement < AGREEMENT


def test_layers_that_a_method_names_itself_need_no_agreement() -> None:
    measured: list[int] = []

    def measure(method: NamedMethod, requests: Sequence[Request]) -> list[list[float]]:
        measured.append(len(requests))
        return [[0.5] * 4] * len(requests)

    named = method_of("qcfuse")
    named = replace(named, method=replace(named.method, layers=(2, 1)))  # type: ignore[type-var]
    found = adaptive(named, lambda n: [request(i) for i in range(n)], 8, measure)
    assert (found.layers, found.agreement, measured) == ([1, 2], None, [8])


def test_ties_are_told() -> None:
    rows = np.tile([0.9, 0.8, 0.5, 0.5], (8, 1))
    found = profiles._profile(rows, range(8), 3, ())
    assert found.tied
    assert found.layers == [0, 1, 2]


@pytest.mark.parametrize(
    ("evaluated", "what"),
    [
        (Request("e", "x", (), ((9, 9), (1, 8)), (5,), (), 4), "chunk"),
        (Request("e", "x", (), ((9, 9),), (1, 2), (), 4), "question"),
    ],
)
def test_a_shared_chunk_or_question_is_refused(evaluated: Request, what: str) -> None:
    refuse_shared([request(1)], [request(2, (3, 4))], "mine")
    with pytest.raises(UserError, match=f"r1 of mine has a {what} that the run evaluates"):
        refuse_shared([request(1)], [evaluated], "mine")


def test_a_set_that_is_evaluated_is_refused_and_the_own_one_is_recorded(
    tiny: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "fig10", "--profile", "tiny", "--models", str(tiny("qwen3")), "--datasets", "ruler/single",
            "--methods", "qcfuse", "--rho", "0.3", "--requests", "1", "--chunks", "3", "--chunk-tokens", "90",
            "--dtype", "float32", "--out", f"{tmp_path}/out", "--report", f"{tmp_path}/rep"]  # fmt: skip
    assert main([*argv, "--calibration-set", "ruler/mq"]) == 2
    said = capsys.readouterr().err
    assert "ruler/mq" in said
    assert "Traceback" not in said
    assert main(argv) == 0
    described = json.loads((tmp_path / "out" / "run.json").read_text())
    (kept,) = described["calibration"].values()
    assert (kept["dataset"], kept["chunks"], kept["chunk_tokens"]) == ("calibration", 3, 90)
    (method,) = kept["methods"].values()
    assert len(method["layers"]) == 3
    assert method["requests"] == kept["samples"]
    assert 0 <= method["agreement"] <= 1
