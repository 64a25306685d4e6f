"""Questions with marked answers about invented things: what layers are profiled on, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from bench.data.longbench_format import BEFORE_CONTEXT, MAX_NEW_TOKENS, after_context
from bench.dataset import Dataset, Fit, Sample
from bench.errors import UserError
from bench.fiction import Names


@dataclass(frozen=True)
class Fact:
    """What can be told of a thing `{a}`: a value `{v}` of a kind, the sentence, and the question."""

    value: str
    said: str
    asked: str


# The whole language of the data set: change templates here.
# fmt: off
FACTS: dict[str, tuple[Fact, ...]] = {
    "ship": (
        Fact("town", "{a} was built at the yard of {v}.", "At which yard was {a} built?"),
        Fact("person", "Its captain on the first voyage was {v}.",
             "Who was the captain on the first voyage of {a}?"),
        Fact("goods", "For most of its years it carried {v}.", "What did {a} carry for most of its years?"),
        Fact("colour", "The hull is painted {v}.", "In which colour is the hull of {a} painted?"),
        Fact("length", "It measures {v} from end to end.", "How long is {a} from end to end?"),
    ),
    "bridge": (
        Fact("river", "{a} crosses the {v}.", "Which water does {a} cross?"),
        Fact("person", "It was drawn by the engineer {v}.", "Which engineer drew {a}?"),
        Fact("material", "Its arches are of {v}.", "Of what are the arches of {a}?"),
        Fact("length", "The middle arch spans {v}.", "How far does the middle arch of {a} span?"),
    ),
    "museum": (
        Fact("goods", "{a} shows old {v} in three rooms.", "What is shown in the rooms of {a}?"),
        Fact("person", "Its keys are kept by {v}.", "Who keeps the keys of {a}?"),
        Fact("weekday", "The doors stay shut on {v}.", "On which day do the doors of {a} stay shut?"),
        Fact("town", "Visitors come by coach from {v}.", "From where do visitors come to {a} by coach?"),
    ),
    "festival": (
        Fact("month", "{a} is held early in {v}.", "In which month is {a} held?"),
        Fact("goods", "The winner takes home {v}.", "What does the winner at {a} take home?"),
        Fact("person", "The first speech was given by {v}.", "Who gave the first speech at {a}?"),
        Fact("town", "The parade starts in {v}.", "Where does the parade of {a} start?"),
    ),
    "garden": (
        Fact("tree", "{a} is planted with {v}.", "With which trees is {a} planted?"),
        Fact("person", "The ground was given by {v}.", "Who gave the ground of {a}?"),
        Fact("colour", "The gate is painted {v}.", "In which colour is the gate of {a} painted?"),
        Fact("river", "A pump brings water from the {v}.", "From where does a pump bring water to {a}?"),
    ),
    "expedition": (
        Fact("person", "{a} was led by {v}.", "Who led {a}?"),
        Fact("town", "It set out from {v}.", "From where did {a} set out?"),
        Fact("month", "The party came home in {v}.", "In which month did the party of {a} come home?"),
        Fact("goods", "The sledges were laden with {v}.", "With what were the sledges of {a} laden?"),
    ),
}
VALUES = {
    "goods": ("salt", "copper wire", "roof tiles", "coffee", "barley", "maps", "looms", "brass bells", "cork",
              "woollen coats", "dried apples", "coal", "marble", "sewing machines", "lamp oil", "rope"),
    "colour": ("dark green", "bright yellow", "pale blue", "grey", "orange", "deep red", "white", "purple"),
    "material": ("granite", "cast iron", "brick", "sandstone", "oak", "limestone", "concrete", "steel"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": ("January", "February", "March", "April", "May", "June", "July", "August", "September",
              "October", "November", "December"),
    "tree": ("plum trees", "lime trees", "fig trees", "pear trees", "almond trees", "palms", "ferns"),
    "length": tuple(f"{n} metres" for n in range(17, 99)),
}
FIRST = ("Quiet", "Brave", "Northern", "Golden", "Hidden", "Merry", "Patient", "Royal", "Distant", "Humble",
         "Lucky", "Ancient", "Gentle", "Proud", "Crooked", "Painted", "Windy", "Bright")
SECOND = ("Candle", "Meadow", "Compass", "Thistle", "Harvest", "Mirror", "Comet", "Pepper", "Saddle",
          "Kettle", "Orchard", "Whistle", "Basket", "Feather", "Ladder", "Hammer", "Button", "Pebble")
# fmt: on


@dataclass(frozen=True)
class Asked:
    """A question about a context: its text, its answer and where the answer stands, in characters."""

    text: str
    answer: str
    span: tuple[int, int]


@dataclass
class Calibration(Dataset):
    """One question, one passage, one marked answer: SQuAD's kind of question without its files.

    QCFuse calibrates on span-labelled questions that it does not evaluate on (section 3.2.3: SQuAD, NewsQA,
    Natural Questions; here `spans`, for who has the files). This set needs none: passages about invented
    ships, bridges, museums, festivals, gardens and expeditions, in LongBench's layout and with its prompt,
    as many as fill the context (the last is cut). It has no template, relation or title in common with
    `multihop` and RULER. As in SQuAD several questions are asked of one context, `questions` of them, each
    about a fact that is told in one place and whose answer stands nowhere else.
    """

    questions: int = 8

    name: ClassVar[str] = "calibration"
    about: ClassVar[str] = "questions with marked answers about invented things: to profile layers on"
    tasks: ClassVar[tuple[str, ...]] = ("",)
    metric: ClassVar[str] = "f1"
    note: ClassVar[str] = "LongBench-format, not LongBench"

    def __post_init__(self) -> None:
        if self.questions < 1:
            raise UserError(f"calibration: questions is at least 1, not {self.questions!r}")

    def samples(self, fit: Fit, n: int, seed: int) -> list[Sample]:
        """Make n samples; raises `UserError` where a context holds no whole fact."""
        made: list[Sample] = []
        world = 0
        while len(made) < n:
            rng = random.Random(f"{seed}/calibration/{world}")
            context, asked = _world(fit, rng)
            if not asked:
                raise UserError(f"calibration: {fit.tokens} context tokens hold no whole fact: take more")
            for k, question in enumerate(rng.sample(asked, min(self.questions, len(asked)))):
                made.append(_sample(f"calibration-{seed}-{world}-{k}", context, question))
            world += 1
        return made[:n]

    def provenance(self) -> dict[str, Any]:
        """The parameters."""
        return {"questions": self.questions}


def _sample(name: str, context: str, asked: Asked) -> Sample:
    return Sample(
        id=name,
        instruction=BEFORE_CONTEXT,
        context=context,
        query=after_context(asked.text),
        question=asked.text,
        references=(asked.answer,),
        max_new_tokens=MAX_NEW_TOKENS,
        evidence=(asked.span,),
    )


def _world(fit: Fit, rng: random.Random) -> tuple[str, list[Asked]]:
    """A full context, and every question that can be asked of it."""
    parts: list[str] = []
    told: list[Asked] = []
    size = length = 0
    for passage, facts in _passages(rng):
        told += [Asked(a.text, a.answer, (a.span[0] + length, a.span[1] + length)) for a in facts]
        parts.append(passage)
        length += len(passage)
        size += fit.count(passage)
        if size > fit.tokens and fit.count("".join(parts)) > fit.tokens:
            break
    context = fit.cut("".join(parts), fit.tokens)
    whole = [a for a in told if a.span[1] < len(context)]
    return context, [a for a in whole if context.count(a.answer) == 1]


def _passages(rng: random.Random) -> Iterator[tuple[str, list[Asked]]]:
    """Passages without end, each with its questions; spans are characters of the passage."""
    names, number = Names(rng), 0
    while True:
        titles = list(product(FIRST, SECOND))
        rng.shuffle(titles)
        for first, second in titles:
            number += 1
            kind = rng.choice(list(FACTS))
            title = f"the {first} {second} {kind.capitalize()}"
            text, asked = f"Passage {number}:\nThe{title[3:]}\n", []
            facts = rng.sample(FACTS[kind], len(FACTS[kind]))
            facts.sort(key=lambda fact: "{a}" not in fact.said)  # what names the thing comes first
            for fact in facts:
                value = _value(fact.value, names, rng)
                sentence = fact.said.format(a=title, v=value)
                at = len(text) + sentence.rindex(value)
                asked.append(Asked(fact.asked.format(a=title), value, (at, at + len(value))))
                text += sentence[0].upper() + sentence[1:] + " "
            yield text.rstrip() + "\n", asked


def _value(kind: str, names: Names, rng: random.Random) -> str:
    if kind in VALUES:
        return rng.choice(VALUES[kind])
    return {"town": names.town, "person": names.person, "river": names.river}[kind]()


DATASET = Calibration
