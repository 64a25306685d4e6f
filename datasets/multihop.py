"""Two-hop questions about a small invented world, in LongBench's format."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.data.longbench_format import BEFORE_CONTEXT, MAX_NEW_TOKENS, after_context
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.fiction import Names
from bench.fitting import most_units


@dataclass(frozen=True)
class Fact:
    """One relation: `{a}` is what the passage is about, `{v}` the value.

    `phrase` names the value by way of the subject, {kind} describing it; a fact with a phrase can be
    a first hop.
    """

    about: str
    value: str
    said: tuple[str, ...]
    asked: str
    phrase: str = ""


def _kinds(noun: str, *adjectives: str) -> tuple[str, ...]:
    return tuple(f"{adjective} {noun}" for adjective in adjectives)


# The whole language of the data set: change templates here.
# fmt: off
FACTS = (
    Fact("person", "company", ("{a} works for {v}.", "{a} has worked for {v} for many years."),
         "Which company does {a} work for?", "the {kind} that {a} works for"),
    Fact("person", "town", ("{a} lives in {v}.", "{a} lives in the town of {v}."),
         "In which town does {a} live?", "the {kind} where {a} lives"),
    Fact("person", "school", ("{a} studied at {v}.", "As a young adult, {a} studied at {v}."),
         "Where did {a} study?", "the {kind} where {a} studied"),
    Fact("person", "person", ("{a} is married to {v}.", "{a} has long been married to {v}."),
         "Who is {a} married to?"),
    Fact("person", "instrument", ("{a} plays the {v}.", "In the evenings, {a} plays the {v}."),
         "Which musical instrument is played by {a}?"),
    Fact("person", "year", ("{a} was born in {v}.", "{a} was born in the year {v}."),
         "What is the year of birth of {a}?"),
    Fact("company", "person", ("The director of {a} is {v}.", "The director of {a} is called {v}."),
         "Who is the director of {a}?"),
    Fact("company", "town", ("The head office of {a} is in {v}.", "{a} has its head office in {v}."),
         "In which town is the head office of {a}?"),
    Fact("company", "year", ("{a} was founded in {v}.", "{a} was founded in the year {v}."),
         "What is the founding year of {a}?"),
    Fact("company", "product", ("{a} makes {v}.", "{a} is known because it makes {v}."),
         "Which product is made by {a}?"),
    Fact("town", "person", ("The mayor of {a} is {v}.", "The mayor of {a} is called {v}."),
         "Who is the mayor of {a}?"),
    Fact("town", "river", ("{a} lies on the river {v}.", "The town of {a} lies on the river {v}."),
         "Which river flows through {a}?"),
    Fact("town", "year", ("The railway reached {a} in {v}.", "The railway reached {a} in the year {v}."),
         "In which year did the railway reach {a}?"),
    Fact("school", "person", ("The head of {a} is {v}.", "The head of {a} is called {v}."),
         "Who is the head of {a}?"),
    Fact("school", "town", ("{a} is in {v}.", "The buildings of {a} are in {v}."),
         "In which town is {a}?"),
    Fact("school", "year", ("{a} was opened in {v}.", "{a} was opened in the year {v}."),
         "What is the opening year of {a}?"),
)
KINDS = {
    "person": ("clerk", "gardener", "printer", "surveyor", "nurse", "teacher", "sailor", "tailor", "pilot"),
    "company": _kinds("company", "family", "shipping", "mining", "printing", "toy", "tea", "tool"),
    "town": _kinds("town", "market", "fishing", "mining", "border", "mill", "harbour", "garrison"),
    "school": _kinds("school", "music", "farming", "nursing", "sailing", "law", "drama", "cookery"),
}
WORDS = {
    "instrument": ("violin", "cello", "flute", "harp", "piano", "organ", "trumpet", "guitar", "clarinet"),
    "product": ("glass", "paper", "clocks", "bicycles", "furniture", "soap", "lamps", "carpets", "knives"),
    "year": tuple(map(str, range(1801, 1990))),
}
# fmt: on
SIDE_FACTS = 1
"""Facts in a passage besides the one a question may need."""
CHAINS = tuple((f, s) for f in FACTS if f.phrase for s in FACTS if s.about == f.value and not s.phrase)
"""Every pair of hops a question can ask for."""


@dataclass(frozen=True)
class Passage:
    """A title and its sentences; `key` is the sentence of the fact asked for."""

    title: str
    sentences: tuple[str, ...]
    key: str

    def text(self, number: int, sentences: int | None = None) -> str:
        return f"Passage {number}:\n{self.title}\n{' '.join(self.sentences[:sentences])}"


@dataclass
class Multihop(Dataset):
    """Questions that need two passages, such as "Who is the mayor of the town where X lives?".

    Every sample is a world of its own: people, companies, towns and schools with invented names,
    a passage for each, in LongBench's layout and with its prompt. One passage says where X lives,
    another who is mayor there; the rest are chains of the same make about others. The answer
    stands in one passage only. The two supporting passages are at least a third of the passages
    apart.

    As in many questions of HotpotQA the bridge is described too ("the fishing town where X lives"),
    and no other town is described so: a two-hop question that a small model answers, at the price
    that the description alone can lead to the answer. `described=False` leaves it out.

    `hops=1` asks about the second passage's title directly: the same context without the hop.
    Evidence is the answer where it is told, needles are the sentences of the question's hops.
    `rivals`: chains with the question's own two relations (another Y, her town, its mayor), so
    that only the first hop tells the answers apart; the others begin with another relation.
    """

    hops: int = 2
    rivals: int = 0
    described: bool = True

    name: ClassVar[str] = "multihop"
    about: ClassVar[str] = "Two-hop questions about an invented world, in LongBench's format"
    tasks: ClassVar[tuple[str, ...]] = ("",)
    metric: ClassVar[str] = "f1"
    note: ClassVar[str] = "LongBench-format, not LongBench"

    def __post_init__(self) -> None:
        if self.hops not in (1, 2):
            raise UserError(f"multihop: hops is 1 or 2, not {self.hops!r}")
        if self.rivals < 0:
            raise UserError(f"multihop: rivals must not be negative, not {self.rivals!r}")

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Make n samples; raises `UserError` where two passages do not fit."""
        return [self._sample(fit, seed, i) for i in range(n)]

    def provenance(self) -> dict[str, Any]:
        """The parameters."""
        return {"hops": self.hops, "rivals": self.rivals, "described": self.described}

    def _sample(self, fit: Fit, seed: int, index: int) -> Sample:
        key = f"{seed}/multihop/{index}"
        world = _World(random.Random(key), self.rivals)
        support, question, answer = world.ask(self.hops, self.described)

        def layout(others: int) -> list[Passage]:
            return _spread(support, world.others(others), random.Random(f"{key}/{others}"))

        def tokens(others: int) -> int:
            return fit.count(_join(layout(others)))

        one = max(1, fit.count(support[0].text(1)))
        others = most_units(tokens, fit.tokens, least=0, guess=fit.tokens // one - 2)
        if others is None:
            raise UserError(
                f"multihop: {fit.tokens} context tokens cannot hold the two supporting passages "
                f"({tokens(0)} tokens): more or larger chunks"
            )
        placed = layout(others)
        context = _join(placed)
        spare = world.others(others + 1)[-1]
        for sentences in range(len(spare.sentences) - 1, 0, -1):  # fill up with part of a passage
            longer = context + "\n" + spare.text(len(placed) + 1, sentences)
            if fit.count(longer) <= fit.tokens:
                context = longer
                break
        told = [(context.index(p.key), len(p.key)) for p in support[-self.hops :]]
        begin = told[-1][0] + support[1].key.rindex(answer)
        return Sample(
            id=f"multihop-{seed}-{index}",
            instruction=BEFORE_CONTEXT,
            context=context,
            query=after_context(question),
            question=question,
            references=(answer,),
            max_new_tokens=MAX_NEW_TOKENS,
            evidence=((begin, begin + len(answer)),),
            needles=tuple(sorted((at, at + size) for at, size in told)),
        )


class _World:
    """One sample's people and places, made as they are asked for."""

    def __init__(self, rng: random.Random, rivals: int) -> None:
        self._rng = rng
        self._rivals = rivals
        self._names = Names(rng)
        self._answer = self._kind = ""
        self._hops = rng.choice(CHAINS)
        self._others: list[Passage] = []

    def ask(self, hops: int, described: bool) -> tuple[tuple[Passage, Passage], str, str]:
        """Make the supporting passages, the question and its answer."""
        first, second = self._hops
        person, bridge, answer = (self._value(kind) for kind in ("person", first.value, second.value))
        kind = self._rng.choice(KINDS[first.value])
        self._answer, self._kind = (
            answer,
            kind,
        )  # from here on nothing else has this value, or is of this kind
        support = self._passage(person, first, bridge), self._passage(bridge, second, answer, kind)
        asked = (
            first.phrase.format(a=person, kind=kind if described else first.value) if hops == 2 else bridge
        )
        return support, second.asked.format(a=asked), answer

    def others(self, n: int) -> list[Passage]:
        """The first n passages that do not matter, in chains of two."""
        while len(self._others) < n:
            rival = len(self._others) < 2 * self._rivals
            unlike = [chain for chain in CHAINS if chain[0] != self._hops[0]]
            first, second = self._hops if rival else self._rng.choice(unlike)
            person, bridge, value = (self._value(kind) for kind in ("person", first.value, second.value))
            self._others += [self._passage(person, first, bridge), self._passage(bridge, second, value)]
        return self._others[:n]

    def _value(self, kind: str) -> str:
        if kind in WORDS:
            return self._rng.choice([word for word in WORDS[kind] if word != self._answer])
        make = {
            "person": self._names.person,
            "company": self._names.company,
            "town": self._names.town,
            "school": self._names.school,
            "river": self._names.river,
        }
        return make[kind]()

    def _passage(self, title: str, fact: Fact, value: str, kind: str = "") -> Passage:
        side = [f for f in FACTS if f.about == fact.about and f != fact]
        told = [(f, self._value(f.value)) for f in self._rng.sample(side, min(SIDE_FACTS, len(side)))]
        sentences = [self._rng.choice(f.said).format(a=title, v=v) for f, v in told]
        key = self._rng.choice(fact.said).format(a=title, v=value)
        sentences.insert(self._rng.randint(0, len(sentences)), key)
        kind = kind or self._rng.choice([k for k in KINDS[fact.about] if k != self._kind])
        return Passage(title, (f"{title} is a {kind}.", *sentences), key)


def _spread(support: tuple[Passage, Passage], others: list[Passage], rng: random.Random) -> list[Passage]:
    """Shuffle, with the supporting passages a third of the list or more apart."""
    total = len(others) + 2
    apart = max(1, total // 3)
    i, j = rng.choice([(i, j) for i in range(total) for j in range(i + apart, total)])
    rest = rng.sample(others, len(others))
    first, second = rng.sample(support, 2)
    return [*rest[:i], first, *rest[i : j - 1], second, *rest[j - 1 :]]


def _join(passages: list[Passage]) -> str:
    return "\n".join(p.text(k) for k, p in enumerate(passages, 1))


DATASET = Multihop
