"""Readers of span-annotated questions: SQuAD, MRQA, Natural Questions and NewsQA files.

Formats, told apart by what is in the file, not by its name:

- SQuAD v1.1 JSON (rajpurkar/SQuAD-explorer): `answer_start` counts characters;
- MRQA 2019 JSONL, plain or gzip (mrqa/MRQA-Shared-Task-2019, README): `char_spans`, end inclusive;
- MRQA as the hub's parquet (mrqa-workshop/mrqa): the same, with a column `subset`;
- Natural Questions JSONL, simplified or whole, plain or gzip (google-research-datasets/natural-questions,
  README): spans of tokens, end exclusive; the paragraph is the long answer, without its HTML tokens;
- NQ-Open JSONL with its passages, plain or gzip (nelson-liu/lost-in-the-middle, qa_data): answers only, so
  every place in the gold passage where one stands is a span;
- NewsQA's combined JSON (Maluuba/newsqa, README): `consensus` characters, end exclusive.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.data import datafiles
from bench.data.datafiles import field
from bench.data.spans import SpanRecord, occurrences, trimmed
from bench.errors import UserError

SUBSETS = {"squad": "SQuAD", "natural_questions": "NaturalQuestionsShort", "newsqa": "NewsQA"}
"""MRQA's name of each task."""
_KNOWN = "SQuAD v1.1 JSON, MRQA JSONL or parquet, Natural Questions or NQ-Open JSONL, NewsQA's JSON"


def load(path: Path, data: bytes, task: str, limit: int) -> list[SpanRecord]:
    """The first `limit` questions of a file that have an annotated span; those without are left out.

    Raises `UserError`, with the place in the file, where it has none of the known formats or a record
    is malformed.
    """
    records = itertools.islice(_records(path, datafiles.unpacked(data, path), task), limit)
    found = list(records)
    if not found:
        raise UserError(f"{path}: no question with an annotated span for {task} inside")
    return found


def _records(path: Path, data: bytes, task: str) -> Iterator[SpanRecord]:
    if data[:4] == b"PAR1":
        return _mrqa_parquet(path, data, task)
    first = next((line for line in data.splitlines() if line.strip()), b"")
    try:
        head = datafiles.parse(first, str(path))
    except UserError:
        head = None  # not one value a line: the file is one value
    if not isinstance(head, dict) or "data" in head:
        return _one_value(path, data)
    if "header" in head or "qas" in head:
        return _mrqa(datafiles.json_lines(data, str(path)), task)
    if "annotations" in head:
        return _natural_questions(datafiles.json_lines(data, str(path)))
    if "ctxs" in head:
        return _nq_open(datafiles.json_lines(data, str(path)))
    raise UserError(f"{path}: not a format known here ({_KNOWN})")


def _one_value(path: Path, data: bytes) -> Iterator[SpanRecord]:
    stories = field(datafiles.parse(data, str(path)), "data", list, str(path))
    for number, story in enumerate(stories):
        where = f"{path}, data[{number}]"
        if isinstance(story, dict) and "paragraphs" in story:
            yield from _squad(story, where)
        elif isinstance(story, dict) and "questions" in story:
            yield from _newsqa(story, where)
        else:
            raise UserError(f"{where}: not a format known here ({_KNOWN})")


def _squad(article: dict[str, Any], where: str) -> Iterator[SpanRecord]:
    title = str(article.get("title", "")).replace("_", " ")
    for i, paragraph in enumerate(field(article, "paragraphs", list, where)):
        here = f"{where}, paragraphs[{i}]"
        context = field(paragraph, "context", str, here)
        for j, question in enumerate(field(paragraph, "qas", list, here)):
            at = f"{here}, qas[{j}]"
            spans = []
            for answer in field(question, "answers", list, at):
                text, begin = field(answer, "text", str, at), field(answer, "answer_start", int, at)
                if context[begin : begin + len(text)] != text:
                    raise UserError(f"{at}: the paragraph does not hold {text!r} at {begin}")
                spans.append((begin, begin + len(text)))
            asked = field(question, "question", str, at)
            yield from _record(field(question, "id", str, at), title, context, asked, spans, at)


def _newsqa(story: dict[str, Any], where: str) -> Iterator[SpanRecord]:
    name, context = field(story, "storyId", str, where), field(story, "text", str, where)
    for i, question in enumerate(field(story, "questions", list, where)):
        at = f"{where}, questions[{i}]"
        consensus = field(question, "consensus", dict, at)
        spans = []
        if "s" in consensus:  # else noAnswer or badQuestion
            spans = [(field(consensus, "s", int, at), field(consensus, "e", int, at))]
        yield from _record(f"{name}-{i}", "", context, field(question, "q", str, at), spans, at)


def _mrqa(lines: Iterable[tuple[str, int, dict[str, Any]]], task: str) -> Iterator[SpanRecord]:
    for where, _, line in lines:
        if "header" in line:
            named = line["header"].get("dataset") if isinstance(line["header"], dict) else None
            if named is not None and named != SUBSETS[task]:
                raise UserError(f"{where}: MRQA's {named}, not {SUBSETS[task]}: another task's file")
            continue
        context = field(line, "context", str, where)
        for i, question in enumerate(field(line, "qas", list, where)):
            at = f"{where}, qas[{i}]"
            spans: list[tuple[int, int]] = []
            for answer in field(question, "detected_answers", list, at):
                spans += [_inclusive(pair, at) for pair in field(answer, "char_spans", list, at)]
            name = "qid" if "qid" in question else "id"
            asked = field(question, "question", str, at)
            yield from _record(field(question, name, str, at), "", context, asked, spans, at)


def _inclusive(pair: Any, where: str) -> tuple[int, int]:
    if not (isinstance(pair, list) and len(pair) == 2 and all(type(x) is int for x in pair)):
        raise UserError(f"{where}: char_spans holds {pair!r}, not [first, last]")
    return pair[0], pair[1] + 1


def _mrqa_parquet(path: Path, data: bytes, task: str) -> Iterator[SpanRecord]:
    import pyarrow
    import pyarrow.parquet

    columns = ["subset", "qid", "context", "question", "detected_answers"]
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(data))
        missing = [c for c in columns if c not in file.schema_arrow.names]
        if missing:
            raise UserError(f"{path}: column {missing[0]!r} is missing; the hub's MRQA has it")
        for batch in file.iter_batches(batch_size=256, columns=columns):
            for row in batch.to_pylist():
                if row["subset"] != SUBSETS[task]:
                    continue
                at = f"{path}, question {row['qid']}"
                groups = field(row["detected_answers"], "char_spans", list, at)
                spans = [
                    _inclusive([begin, end], at)
                    for group in groups
                    for begin, end in zip(group["start"], group["end"], strict=True)
                ]
                yield from _record(row["qid"], "", row["context"], row["question"], spans, at)
    except pyarrow.ArrowException as error:
        raise UserError(f"{path}: not a sound parquet file ({str(error).splitlines()[0]})") from error


def _natural_questions(lines: Iterable[tuple[str, int, dict[str, Any]]]) -> Iterator[SpanRecord]:
    for where, _, line in lines:
        tokens = _nq_tokens(line, where)
        asked = field(line, "question_text", str, where)
        for annotation in field(line, "annotations", list, where):
            long = field(annotation, "long_answer", dict, where)
            first, last = field(long, "start_token", int, where), field(long, "end_token", int, where)
            shorts = [
                (field(s, "start_token", int, where), field(s, "end_token", int, where))
                for s in field(annotation, "short_answers", list, where)
            ]
            inside = [s for s in shorts if first <= s[0] < s[1] <= last <= len(tokens)]
            if inside:  # the first annotator who marked a short answer in a paragraph
                context, places = _joined(tokens, first, last)
                spans = [(places[a][0], places[b - 1][1]) for a, b in inside]
                yield from _record(str(line.get("example_id", where)), "", context, asked, spans, where)
                break


def _nq_open(lines: Iterable[tuple[str, int, dict[str, Any]]]) -> Iterator[SpanRecord]:
    for where, number, line in lines:
        answers = field(line, "answers", list, where)
        if not all(isinstance(a, str) for a in answers):
            raise UserError(f"{where}: field 'answers' is not a list of strings")
        gold = [c for c in field(line, "ctxs", list, where) if field(c, "isgold", bool, where)]
        for passage in gold[:1]:
            title, text = field(passage, "title", str, where), field(passage, "text", str, where)
            spans = [span for a in answers for span in occurrences(text, a.strip())]
            asked = field(line, "question", str, where)
            yield from _record(f"line-{number}", title, text, asked, spans, where)


def _nq_tokens(line: dict[str, Any], where: str) -> list[str]:
    """A document's tokens, with those of HTML as empty strings."""
    if "document_text" in line:
        words = field(line, "document_text", str, where).split(" ")
        return ["" if w.startswith("<") and w.endswith(">") else w for w in words]
    tokens = field(line, "document_tokens", list, where)
    return ["" if field(t, "html_token", bool, where) else field(t, "token", str, where) for t in tokens]


def _joined(tokens: list[str], first: int, last: int) -> tuple[str, dict[int, tuple[int, int]]]:
    """Tokens joined by single spaces, and each token's (begin, end) characters."""
    text, places = "", {}
    for i in range(first, last):
        if tokens[i]:
            text += (" " if text else "") + tokens[i]
            places[i] = (len(text) - len(tokens[i]), len(text))
        else:
            places[i] = (len(text), len(text))
    return text, places


def _record(
    name: str, title: str, context: str, question: str, spans: list[tuple[int, int]], where: str
) -> Iterator[SpanRecord]:
    """The record of a question; nothing where it has no span."""
    if not spans:
        return
    if not question.strip():
        raise UserError(f"{where}: the question is empty")
    clean = sorted({trimmed(context, begin, end, where) for begin, end in spans})
    answers = tuple(dict.fromkeys(context[begin:end] for begin, end in clean))
    yield SpanRecord(name, title, context, question, answers, tuple(clean))
