"""RULER: templates byte for byte, lengths, needles, determinism."""

from __future__ import annotations

import random
import re
from typing import Any

import punkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import plugins
from bench.dataset import Fit, Sample
from bench.errors import UserError
from bench.fitting import most_units
from bench.sentences import Prose
from tests._fit import word_fit

ruler = plugins.load("datasets", "ruler")

ESSAY = " ".join(
    f"{'But' if i % 3 else 'So'} thought {i} of Mr. Gray was, e.g., number {i * 7 % 31}. Was it?[{i}]Yes!"
    for i in range(700)
)
NEEDLE = re.compile(r"One of the special magic numbers for (.+?) is: (\d{7})\.")
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


@pytest.fixture(autouse=True)
def _essays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruler, "essays", lambda: (ESSAY, "0" * 64))


def make(task: str, tokens: int = 900, n: int = 3, seed: int = 42, **options: Any) -> list[Sample]:
    made: list[Sample] = ruler.Ruler(task=task, **options).samples(word_fit(tokens), n, seed)
    return made


def prompt(sample: Sample) -> str:
    return sample.instruction + sample.context + sample.query + sample.answer_prefix


def test_single_prompt_is_rulers_singular_template() -> None:
    s = make("single")[0]
    ((key, value),) = NEEDLE.findall(s.context)
    assert s.references == (value,)
    assert prompt(s) == (
        "A special magic number is hidden within the following text. Make sure to memorize it."
        " I will quiz you about the number afterwards.\n"
        f"{s.context}\n"
        f"What is the special magic number for {key} mentioned in the provided text?"
        f" The special magic number for {key} mentioned in the provided text is"
    )


@pytest.mark.parametrize("task", ["mq", "mv"])
def test_plural_prompts(task: str) -> None:
    s = make(task)[0]
    keys = dict.fromkeys(k for k, _ in NEEDLE.findall(s.context))
    asked = s.query.removeprefix("\nWhat are all the special magic numbers for ").removesuffix(
        " mentioned in the provided text?"
    )
    assert prompt(s) == (
        "Some special magic numbers are hidden within the following text. Make sure to memorize it."
        " I will quiz you about the numbers afterwards.\n"
        f"{s.context}\n"
        f"What are all the special magic numbers for {asked} mentioned in the provided text?"
        f" The special magic numbers for {asked} mentioned in the provided text are"
    )
    order = re.split(r", and |, ", asked)
    assert sorted(order) == sorted(keys)
    assert len(order) == (4 if task == "mq" else 1)
    if task == "mq":
        found = dict(NEEDLE.findall(s.context))
        assert asked == f"{order[0]}, {order[1]}, {order[2]}, and {order[3]}"
        assert s.references == tuple(found[k] for k in order)


def test_vt_prompt_is_rulers_template_after_one_solved_example() -> None:
    s = make("vt", demo_tokens=500)[0]
    value = re.findall(r"VAR [A-Z]{5} = (\d{5})", s.context)[0]
    head = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
    demo, mine = s.instruction.split("\n\n" + head)
    assert mine == ""
    assert s.query == (
        f"\nQuestion: Find all variables that are assigned the value {value} in the text above."
    )
    assert s.answer_prefix == (
        " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are"
        f" assigned the value {value}, they are: "
    )
    names = re.search(r"they are:  ([A-Z]{3}(?: [A-Z]{3}){4})$", demo)
    assert names is not None
    assert demo.startswith(head)
    assert all(f"VAR {name} = " in demo for name in names[1].split())
    assert " ".join(s.references) not in s.instruction


def test_vt_context_is_noise_with_one_chain_in_order() -> None:
    s = make("vt")[0]
    lines = s.context.split("\n")
    a, b, c, d, e = s.references
    value = re.findall(r"value (\d+)", s.query)[0]
    assert [x for x in lines if x != NOISE] == [
        f"VAR {a} = {value}",
        *(f"VAR {new} = VAR {old} " for old, new in [(a, b), (b, c), (c, d), (d, e)]),
    ]
    assert all(re.fullmatch("[A-Z]{5}", name) for name in s.references)


@pytest.mark.parametrize(("task", "needles"), [("single", 1), ("mq", 4), ("mv", 4)])
def test_context_is_the_essay_with_needles_between_sentences(task: str, needles: int) -> None:
    for s in make(task, n=5, haystack_offset="zero"):
        assert len(NEEDLE.findall(s.context)) == needles
        assert sorted(v for _, v in NEEDLE.findall(s.context)) == sorted(s.references)
        words = NEEDLE.sub("", s.context).split()
        whole = " ".join(punkt.sent_tokenize(" ".join(ESSAY.split()[: len(words)]))).split()
        assert words == whole[: len(words)]


def test_needles_lie_where_ruler_puts_them() -> None:
    """niah.py's own assembly, for sentences, needles and depths at hand."""
    sentences = [f"S{i}." for i in range(10)]
    needles = [("N one 1.", "1"), ("N two 2.", "2"), ("N three 3.", "3")]
    depths = [0, 51, 100]
    edges = [0, *sorted(int(10 * (d / 100)) for d in depths), 10]
    pieces = []
    for i in range(1, len(edges)):
        pieces.append(" ".join(sentences[edges[i - 1] : edges[i]]))
        if i - 1 < len(needles):
            pieces.append(needles[i - 1][0])
    text, spans, whole = ruler._hide(sentences, needles, depths)
    assert text == " ".join(pieces)
    assert [text[a:b] for a, b in spans] == ["1", "2", "3"]
    assert [text[a:b] for a, b in whole] == [needle for needle, _ in needles]
    assert len(ruler.DEPTHS) == 40
    assert ruler.DEPTHS[:4] == (0, 3, 5, 8)


@pytest.mark.parametrize("task", ["single", "mq", "mv", "vt"])
@pytest.mark.parametrize("tokens", [170, 500, 2000])
def test_length_is_at_most_the_target_and_close(task: str, tokens: int) -> None:
    fit = word_fit(tokens)
    slack = 18 if task == "vt" else 2
    for s in make(task, tokens):
        assert tokens - slack <= fit.count(s.context) <= tokens


@pytest.mark.parametrize("task", ["single", "mq", "mv", "vt"])
def test_first_samples_do_not_depend_on_n_and_seeds_differ(task: str) -> None:
    assert make(task, n=5)[:2] == make(task, n=2)
    assert make(task, n=1) != make(task, n=1, seed=43)
    assert len({s.id for s in make(task, n=5)}) == 5
    assert len({s.references for s in make(task, n=5)}) == 5


@pytest.mark.parametrize("task", ["single", "mq", "mv", "vt"])
def test_needle_spans_are_whole_needles_and_hold_the_evidence(task: str) -> None:
    for s in make(task):
        told = [s.context[a:b] for a, b in s.needles]
        assert len(told) == {"single": 1, "mq": 4, "mv": 4, "vt": 5}[task]
        pattern = r"VAR [A-Z]{5} = (\d{5}|VAR [A-Z]{5} )" if task == "vt" else NEEDLE
        assert all(re.fullmatch(pattern, text) for text in told)
        assert all(any(a <= c and d <= b for a, b in s.needles) for c, d in s.evidence)


@pytest.mark.parametrize("task", ["single", "mq", "mv"])
def test_evidence_spans_are_the_values(task: str) -> None:
    for s in make(task):
        assert sorted(s.context[a:b] for a, b in s.evidence) == sorted(s.references)


def test_vt_evidence_spans_are_the_names_in_the_chain() -> None:
    s = make("vt")[0]
    a, b, c, d, e = s.references
    assert sorted(s.context[i:j] for i, j in s.evidence) == sorted([a, a, b, b, c, c, d, d, e])


@pytest.mark.parametrize(("task", "tokens"), [("single", 10), ("mq", 40), ("mv", 40), ("vt", 100)])
def test_too_short_a_context_is_an_error_that_names_the_minimum(task: str, tokens: int) -> None:
    with pytest.raises(UserError, match=r"at least (\d+) are needed") as caught:
        make(task, tokens)
    least = int(re.findall(r"at least (\d+)", str(caught.value))[0])
    assert make(task, least + 4, n=1)


def test_a_tokenizer_that_counts_nothing_ends_the_search() -> None:
    blind = Fit(tokens=100, count=lambda _: 0, cut=lambda t, _: t, tail=lambda t, _: t)
    with pytest.raises(ValueError, match="count as none"):
        ruler.Ruler(task="vt", demo_tokens=0).samples(blind, 1, 0)


def test_haystack_offset_decides_whether_samples_share_text() -> None:
    zero = {s.context[:60] for s in make("single", n=6, haystack_offset="zero")}
    free = make("single", n=6)
    assert len(zero) < 6
    assert len({s.context[:60] for s in free}) == 6
    assert all(len(NEEDLE.findall(s.context)) == 1 for s in free)


@settings(deadline=None, max_examples=15)
@given(st.integers(300, 9000), st.integers(0, 9))
def test_a_solved_example_fills_at_most_a_tenth_of_the_context(tokens: int, seed: int) -> None:
    fit = word_fit(tokens)
    data = ruler.Ruler(task="vt")
    (s,) = data.samples(fit, 1, seed)
    facts = data.provenance()
    extra = fit.count(s.instruction) - fit.count(ruler.VT.before)
    assert extra <= tokens / 10
    assert extra == facts["demo_tokens"]
    assert facts["demo"].startswith("dropped: " if tokens < 5000 else ("RULER's", "dropped: "))
    assert (extra > 400) == (facts["demo"] == "RULER's")


def test_an_example_asked_for_is_kept_and_noted() -> None:
    data = ruler.Ruler(task="vt", demo_tokens=500)
    (s,) = data.samples(word_fit(300), 1, 0)
    assert s.instruction.count("Question: Find all variables") == 1
    assert data.provenance()["demo"] == "asked for (demo_tokens=500)"
    assert data.provenance()["demo_tokens"] > 400
    none = ruler.Ruler(task="vt", demo_tokens=0)
    none.samples(word_fit(9000), 1, 0)
    assert (none.provenance()["demo"], none.provenance()["demo_tokens"]) == ("left out (demo_tokens=0)", 0)


def test_options() -> None:
    assert [make(t, n=1)[0].max_new_tokens for t in ("single", "vt")] == [128, 30]
    assert make("vt", n=1, tokens_to_generate=7)[0].max_new_tokens == 7
    bare = make("vt", n=1, demo_tokens=0)[0]
    assert bare.instruction.startswith("Memorize")
    assert bare.instruction.count("VAR") == 0
    assert ruler.Ruler(task="mq").provenance()["haystack_sha256"] == "0" * 64
    for bad in ({"haystack_offset": "half"}, {"tokens_to_generate": 0}, {"demo_tokens": -1}):
        with pytest.raises(UserError):
            ruler.Ruler(task="vt", **bad)
    with pytest.raises(UserError, match="demo_tokens=50"):
        make("vt", demo_tokens=50)


def test_word_lists_are_whole_and_keys_keep_their_hyphens() -> None:
    adjectives, nouns = ruler._words()
    assert (len(adjectives), len(nouns)) == (910, 6782)
    assert adjectives == sorted(set(adjectives))
    key = ruler._keys(random.Random(1), 1)[0]
    assert any(key == f"{a}-{key[len(a) + 1 :]}" and key[len(a) + 1 :] in nouns for a in adjectives)


def test_keys_with_hyphens_and_spaces_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    adjectives, nouns = ["ad hoc", "so-called"], ["A-bomb", "T-shirt", "mother in law"]
    monkeypatch.setattr(ruler, "_words", lambda: (adjectives, nouns))
    keys = {f"{a}-{n}" for a in adjectives for n in nouns}
    for s in make("mq", n=4):
        found = dict(NEEDLE.findall(s.context))
        assert set(found) <= keys
        asked = s.query.removeprefix("\nWhat are all the special magic numbers for ").split(" mentioned")[0]
        first, second, third, last = re.split(r", and |, ", asked)
        assert [found[k] for k in (first, second, third, last)] == list(s.references)


@given(st.integers(1, 40), st.integers(1, 20_000), st.integers(0, 20_000))
def test_most_units_needs_few_calls(rate: int, limit: int, guess: int) -> None:
    calls: list[int] = []

    def tokens(n: int) -> int:
        calls.append(n)
        return n * rate

    most_units(tokens, limit, 0, guess)
    assert len(calls) <= 3 * max(limit, guess).bit_length() + 6


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5000))
def test_sentences_of_a_beginning_are_punkts_own(n: int) -> None:
    words = ESSAY.split()
    n = min(n, len(words))
    assert _prose.sentences(0, n) == punkt.sent_tokenize(" ".join(words[:n]))


def test_sentences_repeat_when_the_text_ends() -> None:
    prose = Prose("One two. Three four.")
    assert prose.sentences(0, 6) == ["One two.", "Three four.", "One two."]
    assert prose.sentences(2, 3) == ["Three four.", "One"]
    assert prose.starts() == [0, 2]


@given(st.integers(1, 9), st.integers(0, 3), st.integers(0, 500), st.integers(0, 300))
def test_most_units_finds_the_last_that_fits(rate: int, least: int, limit: int, guess: int) -> None:
    found = most_units(lambda n: n * rate, limit, least, guess)
    assert found == (limit // rate if least * rate <= limit else None)


_prose = Prose(ESSAY)
