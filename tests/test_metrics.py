"""Golden vectors of the two metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics import METRICS
from bench.metrics.f1 import f1, normalise
from bench.metrics.string_match import postprocess, string_match_all


@pytest.mark.parametrize(
    ("prediction", "gold", "percent"),
    [
        ("The Eiffel Tower.", "Eiffel tower", 100),
        ("U.S.A.", "USA", 100),
        ("1,000", "1000", 100),
        ("well-known", "well known", 0),
        ("“Paris”", "Paris", 0),
        ("Beyoncé", "Beyonce", 0),
        ("A. A. Milne", "A.A. Milne", 66.67),
        ("Answer: Paris", "Paris", 66.67),
        ("yes\nQuestion: next?", "yes", 50),
        ("a", "the", 0),
        ("", "", 0),
        ("$59,039", "59039", 100),
        ("London", "Paris", 0),
    ],
)
def test_f1_golden(prediction: str, gold: str, percent: float) -> None:
    assert round(100 * f1(prediction, [gold]), 2) == percent


def test_f1_takes_the_best_of_all_references() -> None:
    assert f1("Paris", ["London", "in Paris", "Paris"]) == 1.0
    assert f1("Paris", ["London", "in Paris"]) == pytest.approx(2 / 3)


def test_f1_counts_repeated_words_once_each() -> None:
    assert f1("la la la", ["la la"]) == pytest.approx(0.8)


def test_normalise_deletes_articles_only_as_words() -> None:
    assert normalise("The theatre, an ant and a cat") == ["theatre", "ant", "and", "cat"]


@pytest.mark.parametrize(
    ("prediction", "references", "score"),
    [
        ("1234567, 7654321", ["1234567", "7654321"], 1.0),
        ("1234567", ["1234567", "7654321"], 0.5),
        ("they are ABCDE fghij.", ["abcde", "FGHIJ"], 1.0),
        ("12345678", ["1234567"], 1.0),
        ("", ["1234567"], 0.0),
        ("123\x004567", ["1234567"], 0.0),
        ("nothing", ["1234567", "7654321"], 0.0),
    ],
)
def test_string_match_golden(prediction: str, references: list[str], score: float) -> None:
    assert string_match_all(prediction, references) == score


def test_postprocess_turns_control_characters_into_newlines() -> None:
    assert postprocess(" \x01a\tb\x1f\n") == "a\nb"


@pytest.mark.parametrize("name", sorted(METRICS))
def test_one_string_is_not_a_list_of_references(name: str) -> None:
    with pytest.raises(TypeError, match="not one string"):
        METRICS[name].score("abc", "abc")
    with pytest.raises(ValueError, match="no references"):
        METRICS[name].score("abc", [])


def test_registry_is_keyed_by_name() -> None:
    assert {n: (m.name, m.label) for n, m in METRICS.items()} == {
        "f1": ("f1", "F1"),
        "string_match": ("string_match", "SM"),
    }


@given(st.text(), st.lists(st.text(), min_size=1, max_size=4))
def test_scores_lie_between_0_and_1_and_more_references_never_hurt_f1(p: str, refs: list[str]) -> None:
    assert all(0 <= m.score(p, refs) <= 1 for m in METRICS.values())
    assert f1(p, [*refs, p]) >= f1(p, refs)
