"""Readers of multi-hop questions with their paragraphs, as published: HotpotQA, 2WikiMultihopQA, MuSiQue.

Formats, by task; each may be one JSON list or JSON lines, plain or gzip:

- HotpotQA's distractor setting (hotpotqa/hotpot, README): `_id`, `question`, `answer`, `supporting_facts`
  [[title, sentence]], `context` [[title, [sentences]]];
- 2WikiMultihopQA (Alab-NII/2wikimultihop, README): the same, with `answer_id`; other names of an answer
  stand in `id_aliases.json`, one object a line with `Q_id`, `aliases` and, in later releases, `demonyms`;
- MuSiQue (StonyBrookNLP/musique, README): `id`, `question`, `answer`, `answer_aliases`, `answerable`,
  `paragraphs` [{title, paragraph_text, is_supporting}]: support is told by the paragraph, not the sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import datafiles
from bench.data.datafiles import field
from bench.errors import UserError

MUSIQUE = "musique"


@dataclass(frozen=True)
class Paragraph:
    """A title, its text, and which (begin, end) characters of the text are supporting facts."""

    title: str
    text: str
    facts: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PassageRecord:
    """A question with gold and distracting paragraphs, in the published order.

    `answers`: the answer and its aliases, each once. `facts_missing`: supporting facts whose title or
    sentence the record does not hold (published files have some).
    """

    id: str
    question: str
    answers: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]
    facts_missing: int
    answerable: bool = True


def load(
    path: Path, data: bytes, task: str, aliases: Mapping[str, tuple[str, ...]]
) -> Iterator[PassageRecord]:
    """The records of a file, in its order. Raises `UserError`, with the place, for a malformed one."""
    seen: set[str] = set()
    for where, record in _objects(datafiles.unpacked(data, path), str(path)):
        made = _musique(record, where) if task == MUSIQUE else _hotpotqa(record, where, aliases)
        if made.id in seen:
            raise UserError(f"{where}: the id {made.id!r} is there twice")
        seen.add(made.id)
        yield made


def read_aliases(path: Path, data: bytes) -> dict[str, tuple[str, ...]]:
    """2WikiMultihopQA's `id_aliases.json`: every other name by answer id. Raises `UserError`."""
    found: dict[str, tuple[str, ...]] = {}
    for where, record in _objects(datafiles.unpacked(data, path), str(path)):
        names = [
            *field(record, "aliases", list, where),
            *(field(record, "demonyms", list, where) if "demonyms" in record else []),
        ]
        found[field(record, "Q_id", str, where)] = _strings(names, "aliases", where)
    return found


def _objects(data: bytes, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON list or of JSON lines, with their places."""
    if not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        for where, _, record in datafiles.json_lines(data, source):
            yield where, record
        return
    for number, record in enumerate(datafiles.parse(data, source)):
        if not isinstance(record, dict):
            raise UserError(f"{source}, record [{number}]: not a JSON object")
        yield f"{source}, record [{number}]", record


def _hotpotqa(record: dict[str, Any], where: str, aliases: Mapping[str, tuple[str, ...]]) -> PassageRecord:
    wanted: dict[str, set[int]] = {}
    for fact in field(record, "supporting_facts", list, where):
        title, number = _pair(fact, str, int, "supporting_facts", "[title, sentence number]", where)
        wanted.setdefault(title, set()).add(number)
    paragraphs, found = [], 0
    for entry in field(record, "context", list, where):
        title, sentences = _pair(entry, str, list, "context", "[title, [sentences]]", where)
        text, spans = _joined(_strings(sentences, "context", where))
        facts = [
            spans[i] for i in sorted(wanted.get(title, ())) if 0 <= i < len(spans) and _full(text, spans[i])
        ]
        wanted[title] = wanted.get(title, set()) if not facts else set()  # a title said twice counts once
        found += len(facts)
        paragraphs.append(Paragraph(title, text, tuple(facts)))
    total = len({(t, n) for t, n in map(tuple, record["supporting_facts"])})
    names = aliases.get(record["answer_id"], ()) if isinstance(record.get("answer_id"), str) else ()
    return _made("_id", record, paragraphs, names, total - found, where)


def _musique(record: dict[str, Any], where: str) -> PassageRecord:
    paragraphs = []
    for i, entry in enumerate(field(record, "paragraphs", list, where)):
        here = f"{where}, paragraphs[{i}]"
        text = field(entry, "paragraph_text", str, here)
        fact = ((0, len(text)),) if field(entry, "is_supporting", bool, here) and text.strip() else ()
        paragraphs.append(Paragraph(field(entry, "title", str, here), text, fact))
    names = _strings(record.get("answer_aliases", []), "answer_aliases", where)
    answerable = "answerable" not in record or field(record, "answerable", bool, where)
    return _made("id", record, paragraphs, names, 0, where, answerable)


def _made(
    name: str,
    record: dict[str, Any],
    paragraphs: list[Paragraph],
    aliases: tuple[str, ...],
    missing: int,
    where: str,
    answerable: bool = True,
) -> PassageRecord:
    key, question, answer = (field(record, k, str, where) for k in (name, "question", "answer"))
    for what, text in ((name, key), ("question", question), ("answer", answer)):
        if not text.strip() and (what != "answer" or answerable):
            raise UserError(f"{where}: field {what!r} is empty")
    if not paragraphs:
        raise UserError(f"{where}: no paragraphs")
    answers = tuple(dict.fromkeys(a for a in (answer, *aliases) if a.strip()))
    return PassageRecord(key, question, answers, tuple(paragraphs), missing, answerable)


def _pair(value: Any, first: type, second: type, name: str, shape: str, where: str) -> tuple[Any, Any]:
    if (
        not (isinstance(value, list) and len(value) == 2)
        or not isinstance(value[0], first)
        or not isinstance(value[1], second)
        or isinstance(value[1], bool)
    ):
        raise UserError(f"{where}: field {name!r} holds something else than {shape}")
    return value[0], value[1]


def _strings(value: Any, name: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise UserError(f"{where}: field {name!r} holds something else than a list of strings")
    return tuple(value)


def _joined(sentences: tuple[str, ...]) -> tuple[str, list[tuple[int, int]]]:
    """Sentences as one text, a space where none stands between them, and their (begin, end) characters."""
    text, spans = "", []
    for sentence in sentences:
        if text and sentence and not text[-1].isspace() and not sentence[0].isspace():
            text += " "
        begin = len(text) + len(sentence) - len(sentence.lstrip())
        text += sentence
        spans.append((begin, begin + len(sentence.strip())))
    return text, spans


def _full(text: str, span: tuple[int, int]) -> bool:
    return bool(text[span[0] : span[1]].strip())
