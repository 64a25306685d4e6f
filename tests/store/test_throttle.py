"""The throttle, on counted bytes and a clock that is no clock: rate, latency, bursts, threads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.store.throttle import CREDIT_S, Throttle
from tests.store._world import World

RATES = st.sampled_from([1e6, 7.7e6, 1e8, 1e9, 3.3e9, 7e9])
SLOP = 1e-6
"""Seconds of rounding."""


def a_world(
    rate: float, latency: float = 0.0, overslept: Callable[[int], float] = lambda i: 0.0
) -> tuple[World, Throttle]:
    world = World(overslept)
    return world, Throttle(rate, latency, world.clock, world.sleep)


def reads(
    world: World, throttle: Throttle, sizes: list[int], gaps: list[float], speed: float
) -> Callable[[], None]:
    """A worker that reads `sizes` bytes at `speed` bytes a second, idle for `gaps` before each."""

    def work() -> None:
        for size, gap in zip(sizes, gaps, strict=True):
            world.spend(gap)
            throttle.deliver(size, lambda _, length: world.spend(length / speed))

    return work


@settings(max_examples=60, deadline=None)
@given(
    rate=RATES, threads=st.integers(1, 6), seed=st.integers(0, 10**6),
    latency=st.sampled_from([0.0, 0.0001, 0.02]), longest=st.sampled_from([0.0, 0.0005, 0.004]),
    faster=st.sampled_from([1.0, 1.5, 100.0]), idle=st.sampled_from([0.0, 0.001, 0.7]),
)  # fmt: skip
def test_never_above_the_rate(
    rate: float, threads: int, seed: int, latency: float, longest: float, faster: float, idle: float
) -> None:
    """In no window whatever more than the rate allows, the credit, and one slice a thread."""
    chance = random.Random(seed)
    world, throttle = a_world(rate, latency, lambda i: chance.uniform(0, longest))
    workers = []
    for _ in range(threads):
        sizes = [chance.randint(1, int(rate * 0.05) + 1) for _ in range(8)]
        gaps = [chance.choice([0.0, idle]) for _ in sizes]
        workers.append(reads(world, throttle, sizes, gaps, rate * faster))
    world.run(throttle, workers)
    for i, (begin, before) in enumerate(world.log):
        for end, after in world.log[i + 1 :]:
            most = rate * (end - begin + CREDIT_S + SLOP) + threads * throttle.slice_bytes
            assert after - before <= most


@settings(max_examples=25, deadline=None)
@given(
    rate=RATES, threads=st.integers(1, 6), seed=st.integers(0, 10**6),
    layers=st.sampled_from([0.0005, 0.02, 3.0]),
    longest=st.sampled_from([0.0, 0.0005, 0.004]), faster=st.sampled_from([1.0, 1.5, 100.0]),
)  # fmt: skip
def test_the_rate_within_3_percent_in_every_second_of_demand(
    rate: float, threads: int, seed: int, layers: float, longest: float, faster: float
) -> None:
    """Reads of `layers` seconds each, back to back, sleeps that last too long, a device fast enough."""
    chance = random.Random(seed)
    world, throttle = a_world(rate, overslept=lambda i: chance.uniform(0, longest))
    many = max(1, int(3.0 / layers / threads))
    sizes = [max(1, int(rate * layers)) for _ in range(many)]
    work = [reads(world, throttle, sizes, [0.0] * many, rate * faster) for _ in range(threads)]
    world.run(throttle, work)
    begin = 0.05
    while begin + 1 < world.log[-1][0] - 0.05:
        assert abs(world.delivered(begin, begin + 1) / rate - 1) <= 0.03
        begin += 0.13
    assert begin > 0.5  # there was a second to look at


@pytest.mark.parametrize("overslept", [0.0, 0.003])
@pytest.mark.parametrize("latency", [0.0, 0.0001, 0.05])
def test_a_read_takes_its_latency_and_its_bytes(latency: float, overslept: float) -> None:
    """One after the other: nothing is saved while idle, and oversleeping is made good."""
    rate, size = 1e8, 1_000_000
    world, throttle = a_world(rate, latency, lambda i: overslept)
    world.run(throttle, [reads(world, throttle, [size] * 50, [0.0] * 50, 1e10)])
    due = 50 * (latency + size / rate)
    assert due - SLOP <= world.now <= due + 2 * overslept + SLOP


def test_idle_time_earns_nothing() -> None:
    world, throttle = a_world(1e8)
    world.run(throttle, [reads(world, throttle, [1_000_000] * 3, [0.0, 5.0, 0.002], 1e10)])
    assert world.now == pytest.approx(3 * 0.01 + 5.002)


def test_oversleeping_beyond_the_credit_is_lost() -> None:
    world, throttle = a_world(1e8, overslept=lambda i: 1.0 if i == 1 else 0.0)
    world.run(throttle, [reads(world, throttle, [100_000_000], [0.0], 1e10)])
    late = throttle.slice_bytes / 1e8 + 1.0
    assert world.now == pytest.approx(late + 1.0 - throttle.slice_bytes / 1e8 - CREDIT_S)


def test_latencies_overlap_and_bandwidth_does_not() -> None:
    rate, size, latency = 1e8, 1_000_000, 0.5
    world, throttle = a_world(rate, latency)
    world.run(throttle, [reads(world, throttle, [size], [0.0], 1e10) for _ in range(8)])
    assert world.now == pytest.approx(latency + 8 * size / rate)


def test_a_latency_does_not_keep_the_device_from_others() -> None:
    """While one read waits for its first byte, another's bytes flow."""
    rate = 1e8
    world, throttle = a_world(rate, 0.5)
    early = reads(world, throttle, [int(0.5 * rate)], [0.0], 1e10)
    late = reads(world, throttle, [int(0.1 * rate)], [0.4], 1e10)
    world.run(throttle, [early, late])
    assert world.now == pytest.approx(0.5 + 0.6)


@pytest.mark.parametrize(("speed", "seconds"), [(1e10, 1.0), (1.01e8, 1.0), (1e8, 1.0), (0.5e8, 2.0)])
def test_the_real_read_is_part_of_the_time_not_added(speed: float, seconds: float) -> None:
    world, throttle = a_world(1e8)
    world.run(throttle, [reads(world, throttle, [100_000_000], [0.0], speed)])
    assert world.now == pytest.approx(seconds, rel=0.001)


def test_the_real_read_is_part_of_the_latency() -> None:
    world, throttle = a_world(1e8, 0.1)
    world.run(throttle, [reads(world, throttle, [throttle.slice_bytes], [0.0], throttle.slice_bytes / 0.09)])
    assert world.now == pytest.approx(0.1 + throttle.slice_bytes / 1e8)


def test_slices_cover_a_read_in_order() -> None:
    world, throttle = a_world(1e6, 0.001)
    seen: list[tuple[int, int]] = []
    world.run(throttle, [lambda: throttle.deliver(10_000, lambda *at: seen.append(at))])
    assert seen == [(0, 4096), (4096, 4096), (8192, 1808)]
    assert throttle.delivered == 10_000


def test_nothing_read_is_nothing_waited_for() -> None:
    world, throttle = a_world(1.0, 100.0)
    world.run(throttle, [lambda: throttle.deliver(0, lambda *_: pytest.fail("nothing to read"))])
    assert world.now == 0


def test_an_error_passes_through_and_others_go_on() -> None:
    world, throttle = a_world(1e6)

    def fails() -> None:
        def read(offset: int, length: int) -> None:
            raise OSError("broken")

        with pytest.raises(OSError, match="broken"):
            throttle.deliver(4096, read)

    world.run(throttle, [fails, reads(world, throttle, [4096], [0.0], 1e9)])
    assert throttle.delivered == 4096
    assert world.now == pytest.approx(2 * 4096 / 1e6)


@pytest.mark.parametrize(
    ("rate", "latency"), [(0, 0), (-1, 0), (float("nan"), 0), (1, -0.1), (1, float("nan"))]
)
def test_a_throttle_that_cannot_be(rate: float, latency: float) -> None:
    with pytest.raises(ValueError, match="a rate above 0"):
        Throttle(rate, latency)
