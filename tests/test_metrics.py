"""Golden vectors of the metrics, and what predictions look like besides their score."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.metrics import METRICS, all_scores
from bench.metrics.conduct import conduct, is_echo, is_empty, number_precision, quotes_instruction
from bench.metrics.exact_match import exact_match, exact_match_normalised
from bench.metrics.f1 import f1, normalise
from bench.metrics.rouge_l import rouge_l
from bench.metrics.string_match import postprocess, string_match_all, string_match_normalised


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
        "f1_hotpotqa": ("f1_hotpotqa", "F1 (yes and no exact)"),
        "string_match": ("string_match", "SM"),
        "rouge_l": ("rouge_l", "ROUGE-L (released F1)"),
        "exact_match": ("exact_match", "EM, as written"),
        "exact_match_normalised": ("exact_match_normalised", "EM"),
        "string_match_normalised": ("string_match_normalised", "SM, whole words"),
    }
    assert len({m.label for m in METRICS.values()}) == len(METRICS), "a label tells a metric"


def test_all_scores_has_every_metric() -> None:
    assert all_scores("The cats ran", ["cats ran", "dogs"]) == {
        "f1": 1.0,
        "f1_hotpotqa": 1.0,
        "string_match": 0.5,
        "rouge_l": 0.8,
        "exact_match": 0.0,
        "exact_match_normalised": 1.0,
        "string_match_normalised": 0.5,
    }


@pytest.mark.parametrize(
    ("prediction", "references", "score"),
    [
        ("the cats are running", ["a cat runs"], 4 / 7),  # stems: cat, run; the article counts
        ("Paris", ["London", "Paris"], 1.0),
        ("b a", ["a b"], 0.5),  # order matters, unlike token F1
        ("well-known", ["well known"], 1.0),  # a hyphen parts words, unlike token F1
        ("Zoë", ["Zoe"], 0.0),  # ë is no letter: zo
        ("東京", ["東京"], 0.0),
        ("", [""], 0.0),
    ],
)
def test_rouge_l_golden(prediction: str, references: list[str], score: float) -> None:
    assert rouge_l(prediction, references) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "references", "as_written", "normalised"),
    [
        (" Paris\n", ["London", "Paris"], 1.0, 1.0),
        ("paris.", ["Paris"], 0.0, 1.0),
        ("The U.S.A.", ["USA"], 0.0, 1.0),
        ("Paris, France", ["Paris"], 0.0, 0.0),
        ("", [""], 1.0, 1.0),
        ("the", ["a"], 0.0, 1.0),
    ],
)
def test_exact_match_golden(
    prediction: str, references: list[str], as_written: float, normalised: float
) -> None:
    assert exact_match(prediction, references) == as_written
    assert exact_match_normalised(prediction, references) == normalised


@pytest.mark.parametrize(
    ("prediction", "references", "score"),
    [
        ("12345678", ["1234567"], 0.0),
        ("They are 1,234,567.", ["1234567"], 1.0),
        ("the ABCDE and fghij", ["abcde fghij", "ABCDE"], 0.5),
        ("anything", ["the"], 0.0),
    ],
)
def test_string_match_normalised_golden(prediction: str, references: list[str], score: float) -> None:
    assert string_match_normalised(prediction, references) == score


CONTEXT = "Passage 1:\nThe mill of Arden was built by Ann Lee, who lived near the old stone bridge for years."


@pytest.mark.parametrize(
    ("prediction", "echo"),
    [
        ("Ann Lee", False),
        ("the mill of Arden was built by Ann Lee", False),  # an answer in a sentence: nine words
        ("It says: the mill of Arden was built by Ann Lee, who lived near water", True),
        ("THE MILL OF ARDEN\nwas  built, by Ann Lee who lived near!", True),
        ("the old stone bridge for years", True),  # the prompt's end, said again
        ("for years", False),
        ("", False),
        ("Ann Lee built it when she was young and lived in a town by the sea", False),
    ],
)
def test_echo(prediction: str, echo: bool) -> None:
    assert is_echo(prediction, CONTEXT) is echo


def test_empty() -> None:
    assert [is_empty(t) for t in ("", " \n\t", "\x00\x1f ", "a", "。")] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("prediction", "references", "precision"),
    [
        ("1234567 and 7654321", ["1234567", "7654321"], 1.0),
        ("1234567, 1234567, 1111111, 2222222", ["1234567"], 1 / 3),
        ("1,234,567.", ["1234567"], 1.0),
        ("1234567", ["1,234,567"], 1.0),
        ("12345678", ["1234567"], 0.0),
        ("1. 1234567\n2. 7654321", ["1234567", "7654321"], 1.0),
        ("none at all", ["1234567"], 0.0),
        ("", ["1234567"], 0.0),
        ("1874", ["in 1874"], None),
        ("1234567", ["1234567", "Ann Lee"], None),
    ],
)
def test_number_precision(prediction: str, references: list[str], precision: float | None) -> None:
    assert number_precision(prediction, references) == precision


SOLVED = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
    "VAR QXV = 58213\nVAR KJT = VAR QXV \nNoise by Orme, of Borley.\nthey are:  QXV KJT\n"
)


@pytest.mark.parametrize(
    ("prediction", "quotes"),
    [
        ("QXV KJT", True),
        ("ABCDE, KJT", True),
        ("58213", True),
        ("It was Orme.", False),  # the rest holds it
        ("ABCDE FGHIJ", False),
        ("VAR ABCDE", False),
        ("Memorize the chain of variable assignment hidden", False),
        ("qxvariable 582131", False),
        ("", False),
    ],
)
def test_quotes_of_the_instruction(prediction: str, quotes: bool) -> None:
    rest = "VAR ABCDE = 12345 and Orme\nVAR FGHIJ = VAR ABCDE \nQuestion: which?"
    assert quotes_instruction(prediction, SOLVED, rest, ["ABCDE", "FGHIJ"]) is quotes


def test_capitals_inside_a_sentence_are_names_and_a_reference_is_no_quote() -> None:
    assert quotes_instruction("Borley", SOLVED, "", ["x"])
    assert not quotes_instruction("Borley", SOLVED, "", ["in Borley"])
    assert not quotes_instruction("Memorize", SOLVED, "", ["x"])


def test_conduct_counts() -> None:
    pairs = [("", CONTEXT), ("Ann Lee", CONTEXT), (CONTEXT, CONTEXT)]
    counted = conduct(pairs, lambda text: [0] * len(text.split()))
    assert (counted.predictions, counted.empty, counted.echoes) == (3, 1, 1)
    assert counted.tokens_mean == (0 + 2 + len(CONTEXT.split())) / 3
    with pytest.raises(ValueError, match="no predictions"):
        conduct([], lambda _: [])


@settings(deadline=None)  # the first ROUGE-L imports NLTK
@given(st.text(), st.lists(st.text(), min_size=1, max_size=4))
def test_scores_lie_between_0_and_1_and_more_references_never_hurt_f1(p: str, refs: list[str]) -> None:
    assert all(0 <= m.score(p, refs) <= 1 for m in METRICS.values())
    assert f1(p, [*refs, p]) >= f1(p, refs)
