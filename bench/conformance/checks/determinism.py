"""The same in every process."""

from __future__ import annotations

import random

import numpy as np
import torch

from bench.conformance.outcome import Broken
from bench.conformance.stand import Run, Stand


def does_not_depend_on_global_random_state(stand: Stand) -> None:
    """A fresh instance under other seeds of Python, NumPy and PyTorch selects and answers the same.

    A run that is stopped and resumed would else mix two selections under one name.
    """
    request = stand.request()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        runs: list[Run] = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            with stand.setup() as setup:
                runs.append(setup.run(request))
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
    if not runs[0].same(runs[1]):
        raise Broken("other seeds give another answer; draw from the request's own hash", "select()")
