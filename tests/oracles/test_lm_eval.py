"""Our scorers against those of lm-evaluation-harness, pair by pair.

The scorers' files are loaded by path: importing the package would pull in what only its runs need.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from bench.metrics.f1 import f1, normalise
from bench.metrics.string_match import postprocess, string_match_all

VERSION = "0.4.13"
WORDS = (
    "Paris paris the The a an A. A.A. U.S.A. 1,000 1000 well-known well known “Paris” Beyoncé Beyonce yes no"
    " 7402913 ABCDE fghij . , ' \" - — $59,039 \n \t \x00 \x1f İstanbul ß ＡＢ 東京 🙂 the-a a.n answer:"
).split(" ")


def load(name: str, file: str) -> ModuleType:
    """A module of the installed lm-eval, alone; skips where that is not there, fails on another version."""
    found = importlib.util.find_spec("lm_eval")
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"needs lm-eval=={VERSION} (requirements/cpu.txt)")
    assert metadata.version("lm-eval") == VERSION
    path = Path(found.submodule_search_locations[0]) / "tasks" / file
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def longbench() -> ModuleType:
    """Its LongBench metrics; three imports are for other tasks' metrics and stand empty."""
    with pytest.MonkeyPatch.context() as patch:
        for name, members in (("jieba", []), ("fuzzywuzzy", ["fuzz"]), ("rouge", ["Rouge"])):
            stand_in = ModuleType(name)
            for member in members:
                setattr(stand_in, member, None)
            patch.setitem(sys.modules, name, stand_in)
        return load("lm_eval_longbench_metrics", "longbench/metrics.py")


@pytest.fixture(scope="module")
def ruler() -> ModuleType:
    """Its RULER metrics."""
    return load("lm_eval_ruler_utils", "ruler/common_utils.py")


def phrases(rng: random.Random, least: int) -> str:
    return rng.choice((" ", "", "  ", "\n")).join(rng.choices(WORDS, k=rng.randint(least, 8)))


def pairs() -> list[tuple[str, list[str]]]:
    """600 random (prediction, references), half of them with a reference inside, and hand-made ones."""
    rng = random.Random(20260829)
    made = []
    for i in range(600):
        references = [phrases(rng, 1) for _ in range(rng.randint(1, 5))]
        prediction = phrases(rng, 0)
        if i % 2:
            prediction = f"{phrases(rng, 0)} {rng.choice(references)} {prediction}"
        made.append((prediction, references))
    return [
        *made,
        ("", [""]),
        ("a", ["the"]),
        ("The Eiffel Tower.", ["Eiffel tower"]),
        ("A. A. Milne", ["A.A. Milne"]),
        ("yes\nQuestion: next?", ["yes"]),
        ("  1234567\x007654321 ", ["1234567", "7654321", "7402913"]),
        ("123\x004567", ["1234567"]),
        ("STRASSE", ["straße"]),
        ("la la la", ["la la", "la la la la"]),
    ]


def test_longbench_f1_is_lm_evals(longbench: ModuleType) -> None:
    scores = []
    for prediction, references in pairs():
        # lm-eval strips before it scores; words are split at white space, so that changes nothing.
        theirs = longbench.get_qa_f1_score({"answers": references}, [prediction])["qa_f1_score"]
        ours = f1(prediction, references)
        assert ours == theirs, (prediction, references)
        scores.append(ours)
    assert len(scores) > 600
    assert min(scores) == 0.0
    assert max(scores) == 1.0
    assert sum(0 < s < 1 for s in scores) > 200, "pairs that tell scorers apart"


def test_normalised_words_are_lm_evals(longbench: ModuleType) -> None:
    for prediction, references in pairs():
        for text in (prediction, *references):
            assert " ".join(normalise(text)) == longbench.normalize_answer(text)


def test_ruler_string_match_is_lm_evals(ruler: ModuleType) -> None:
    scores = []
    for prediction, references in pairs():
        processed = ruler.postprocess_pred([prediction])
        assert [postprocess(prediction)] == processed
        ours = string_match_all(prediction, references)
        assert ours == ruler.string_match_all(processed, [references]), (prediction, references)
        scores.append(ours)
    assert min(scores) == 0.0
    assert max(scores) == 1.0
    assert sum(0 < s < 1 for s in scores) > 100


def test_a_mean_of_ours_is_their_score_of_many(ruler: ModuleType) -> None:
    made = pairs()
    processed = ruler.postprocess_pred([p for p, _ in made])
    theirs = ruler.string_match_all(processed, [r for _, r in made])
    assert theirs == pytest.approx(sum(string_match_all(p, r) for p, r in made) / len(made), abs=1e-12)
