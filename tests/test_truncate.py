"""What stays of a context that is too long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data.truncate import POLICIES, gold_preserving, keep_first, truncate
from bench.data.turn import Turn
from tests._fit import word_fit
from tests._tokenizer import tiny_tokenizer


def test_gold_preserving_keeps_the_answers_passage_behind_the_beginning() -> None:
    filler = " ".join(f"f{k}" for k in range(60))
    context = f"Passage 1:\nA\n{filler}\nPassage 2:\nB\nIn 1874.\nPassage 3:\nC\n{filler}"
    fit = word_fit(30)
    assert "1874" not in keep_first(context, fit)
    gold = gold_preserving(context, fit, ["1874"])
    assert gold.startswith("Passage 1:\nA\nf0 f1")
    assert gold.endswith(" f21\nPassage 2:\nB\nIn 1874.")
    assert len(gold.split()) == 30


@pytest.mark.parametrize("answers", [["f3"], ["nowhere"], ["nowhere", "f3", "f39"], [], [""]])
def test_gold_preserving_changes_nothing_where_nothing_is_lost(answers: list[str]) -> None:
    context = "Passage 1:\nA\n" + " ".join(f"f{k}" for k in range(60))
    assert gold_preserving(context, word_fit(20), answers) == keep_first(context, word_fit(20))


@pytest.mark.parametrize("tokens", [2, 7, 20, 51, 80])
def test_gold_preserving_keeps_half_of_a_long_passage_up_to_the_answer(tokens: int) -> None:
    context = "Passage 1:\nA\n" + " ".join(f"f{k}" for k in range(100)) + " so Ann Lee did. " + "g " * 50
    words = gold_preserving(context, word_fit(tokens), ["Lee"]).split()
    half = tokens // 2
    assert words == context.split()[: tokens - half] + context.split()[106 - half : 106]
    assert words[-1] == "Lee"


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 300), st.integers(0, 3), st.sampled_from(POLICIES))
def test_no_policy_exceeds_the_length_with_a_real_kind_of_tokenizer(
    tokens: int, passage: int, policy: str
) -> None:
    fit = Turn(tiny_tokenizer()).fit(tokens)
    passages = [
        f"Passage {k + 1}:\nThe town\nThe town was founded in the year {1870 + k}. 🙂" for k in range(4)
    ]
    context, answer = "\n".join(passages), f"{1870 + passage}"
    kept = truncate(context, fit, policy, [answer])
    assert fit.count(kept) <= tokens
    if policy == "gold-preserving" and tokens >= 60:
        assert answer in kept
