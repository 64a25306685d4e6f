"""The invented world: answerable, unambiguous, in LongBench's layout."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench import plugins
from bench.dataset import Sample
from bench.errors import UserError
from tests._fit import word_fit

multihop = plugins.load("datasets", "multihop")


def make(tokens: int = 400, n: int = 5, seed: int = 3, **options: Any) -> list[Sample]:
    made: list[Sample] = multihop.Multihop(**options).samples(word_fit(tokens), n, seed)
    return made


def passages(sample: Sample) -> dict[str, str]:
    parts = re.split(r"(?:^|\n)Passage (\d+):\n", sample.context)[1:]
    assert [int(k) for k in parts[::2]] == list(range(1, len(parts) // 2 + 1))
    found = dict(p.split("\n") for p in parts[1::2])
    assert len(found) == len(parts) // 2, "a title stands twice"
    return found


def test_prompt_is_longbenchs() -> None:
    s = make()[0]
    line = (
        "Answer the question based on the given passages."
        " Only give me the answer and do not output any other words."
    )
    question = s.query.split("Question: ")[1].removesuffix("\nAnswer:")
    assert s.instruction == f"{line}\n\nThe following are given passages.\n"
    assert s.query == f"\n\n{line}\n\nQuestion: {question}\nAnswer:"
    assert question.endswith("?")
    assert (s.max_new_tokens, s.answer_prefix) == (32, "")
    assert multihop.Multihop.note == "LongBench-format, not LongBench"


def test_answer_needs_the_bridge_between_two_passages() -> None:
    for s in make(n=40):
        told = passages(s)
        (answer,) = s.references
        holders = [title for title, text in told.items() if answer in text]
        assert len(holders) == 1, "the answer stands in one passage only"
        (bridge,) = holders
        assert bridge not in s.query
        people = [t for t in told if t in s.query]
        assert len(people) == 1
        assert bridge in told[people[0]]
        assert answer not in told[people[0]]


def test_one_hop_asks_about_the_bridge_itself() -> None:
    for one, two in zip(make(hops=1), make(), strict=True):
        assert (one.context, one.references) == (two.context, two.references)
        (answer,) = one.references
        assert any(t in one.query and answer in text for t, text in passages(one).items())


def test_rivals_are_chains_with_the_questions_own_relations() -> None:
    def towns(rivals: int) -> int:
        asked = [s for s in make(n=60, tokens=600, rivals=rivals) if "Who is the mayor of" in s.query]
        assert asked
        return max(sum("The mayor of" in text for text in passages(s).values()) for s in asked)

    assert [towns(r) for r in (0, 1, 3)] == [1, 2, 4]


def test_supporting_passages_are_far_apart() -> None:
    for s in make(tokens=1000, n=20):
        order = list(passages(s).items())
        person = next(i for i, (t, _) in enumerate(order) if t in s.query)
        bridge = next(i for i, (_, text) in enumerate(order) if s.references[0] in text)
        assert abs(person - bridge) >= (len(order) - 1) // 3
    firsts = [s.context.index(s.references[0]) < 3000 for s in make(tokens=1000, n=30)]
    assert {True, False} == set(firsts), "the answer's place varies"


@pytest.mark.parametrize("tokens", [80, 130, 500, 3000])
def test_length_is_at_most_the_target_and_close(tokens: int) -> None:
    fit = word_fit(tokens)
    for s in make(tokens):
        assert tokens - 20 <= fit.count(s.context) <= tokens


def test_whole_sentences_only() -> None:
    for s in make(n=20):
        assert all(text.endswith(".") for text in passages(s).values())


def test_evidence_is_the_answer_in_its_passage() -> None:
    for s in make(n=20):
        ((begin, end),) = s.evidence
        assert s.context[begin:end] == s.references[0]


def test_deterministic_with_the_prefix_property() -> None:
    assert make(n=4)[:2] == make(n=2)
    assert make(n=1) != make(n=1, seed=4)
    assert len({s.context for s in make(n=10)}) == 10


def test_every_pair_of_hops_is_asked_for_and_reads_as_one_question() -> None:
    asked = [s.query.split("Question: ")[1] for s in make(n=400, described=False)]
    questions = {re.sub(r"[A-Z][a-z]+ [A-Z][a-z]+", "X", question) for question in asked}
    assert len(questions) == len(multihop.CHAINS) == 10
    assert "Who is the mayor of the town where X lives?\nAnswer:" in questions


def test_the_bridge_is_described_as_nothing_else_is() -> None:
    for plain, described in zip(make(n=40, described=False), make(n=40), strict=True):
        assert plain.context == described.context
        (kind,) = [k for kinds in multihop.KINDS.values() for k in kinds if f"the {k} " in described.query]
        assert described.context.count(f" is a {kind}.") == 1
        assert kind not in plain.query


def test_errors() -> None:
    with pytest.raises(UserError, match="two supporting passages"):
        make(tokens=30)
    with pytest.raises(UserError, match="hops is 1 or 2"):
        make(hops=3)
    with pytest.raises(UserError, match="rivals must not be negative"):
        make(rivals=-1)
