"""Full prefill must not be slowed down: SGLang's extend beside a plain transformers forward pass.

Run with `make bench`; times are compared, never asserted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

TOKENS = 600
pytestmark = pytest.mark.models


@pytest.fixture(scope="module", params=["smollm2-135m", "qwen2.5-coder-0.5b"])
def both(request: pytest.FixtureRequest, engine_of: Any) -> dict[str, Callable[[], object]]:
    """One prefill of the same ids by either, fp32, the same threads."""
    from transformers import AutoModelForCausalLM

    engine = engine_of(request.param)
    oracle = AutoModelForCausalLM.from_pretrained(engine.runtime.path, dtype=torch.float32)
    ids = [1000 + i % 500 for i in range(TOKENS)]

    def sglang() -> None:
        engine.runtime.clear()
        engine.prefill(ids)

    def transformers() -> None:
        with torch.no_grad():
            oracle(torch.tensor([ids]))

    def last_logit_only() -> None:
        with torch.no_grad():
            oracle(torch.tensor([ids]), logits_to_keep=1)

    return {"sglang": sglang, "transformers": transformers, "transformers, last logit only": last_logit_only}


@pytest.mark.parametrize("which", ["sglang", "transformers", "transformers, last logit only"])
def test_full_prefill(benchmark: Any, both: dict[str, Callable[[], object]], which: str) -> None:
    benchmark.group = f"full prefill, {TOKENS} tokens"
    benchmark.pedantic(both[which], rounds=5, warmup_rounds=1)
