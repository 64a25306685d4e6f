"""Readers of span-annotated questions: every format, and what is wrong with a file; on files made here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.data import span_files
from bench.data.spans import SpanRecord, all_occurrences, occurrences
from bench.errors import UserError

TEXT = "The mill was built by Ann Lee. Later Ann Lee sold it to Tom Orme in 1874."


def squad(**answer: Any) -> dict[str, Any]:
    one = {"text": "Ann Lee", "answer_start": TEXT.index("Ann Lee")} | answer
    asked = {"id": "q0", "question": "Who built it?", "answers": [one]}
    return {"data": [{"title": "The_mill", "paragraphs": [{"context": TEXT, "qas": [asked]}]}]}


def mrqa(dataset: str, **question: Any) -> str:
    begin = TEXT.index("Tom Orme")
    answer = {"text": "tom orme", "char_spans": [[begin, begin + 7]], "token_spans": [[0, 1]]}
    asked = {"qid": "m0", "question": "Who bought it?", "answers": ["Tom Orme"], "detected_answers": [answer]}
    head = {"header": {"dataset": dataset, "split": "dev"}}
    return json.dumps(head) + "\n" + json.dumps({"context": TEXT, "qas": [asked | question]}) + "\n"


def natural() -> str:
    words = "Mills | <P> The mill was <B> built </B> by Ann Lee . </P> <P> Other </P>".split(" ")
    inside = words.index("<P>"), words.index("</P>") + 1
    short = {"start_token": words.index("Ann"), "end_token": words.index("Lee") + 1}
    none = {"long_answer": {"start_token": -1, "end_token": -1}, "short_answers": []}
    good = {
        "long_answer": {"start_token": inside[0], "end_token": inside[1]},
        "short_answers": [short],
        "yes_no_answer": "NONE",
    }
    line = {"example_id": 17, "question_text": "who built the mill", "document_text": " ".join(words)}
    whole = {
        "example_id": 18,
        "question_text": "who built the mill",
        "document_tokens": [{"token": w, "html_token": w.startswith("<")} for w in words],
        "annotations": [good],
    }
    lines = [line | {"annotations": [none, good]}, line | {"annotations": [none]}, whole]
    return "\n".join(map(json.dumps, lines)) + "\n"


def newsqa() -> dict[str, Any]:
    begin = TEXT.index("in 1874")
    asked = [
        {"q": "When?", "consensus": {"s": begin, "e": begin + 7}, "isQuestionBad": 0.0},
        {"q": "Why?", "consensus": {"noAnswer": True}},
    ]
    return {"data": [{"storyId": "./s/1.story", "text": TEXT, "type": "dev", "questions": asked}]}


def load(folder: Path, content: str | bytes | dict[str, Any], task: str = "squad") -> list[SpanRecord]:
    if isinstance(content, dict):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    return span_files.load(folder / "file", data, task, 100)


def test_squad(tmp_path: Path) -> None:
    (record,) = load(tmp_path, squad())
    assert record == SpanRecord("q0", "The mill", TEXT, "Who built it?", ("Ann Lee",), ((22, 29),))
    assert load(tmp_path, json.dumps(squad(), indent=2)) == [record], "many lines or one"
    assert load(tmp_path, b"\xef\xbb\xbf" + json.dumps(squad()).replace(" ", "\r\n", 1).encode()) == [record]


def test_mrqa_ends_are_inclusive_and_another_tasks_file_is_refused(tmp_path: Path) -> None:
    (record,) = load(tmp_path, gzip.compress(mrqa("NewsQA").encode()), "newsqa")
    assert (record.id, record.answers) == ("m0", ("Tom Orme",))
    assert [TEXT[a:b] for a, b in record.spans] == ["Tom Orme"]
    with pytest.raises(UserError, match="MRQA's NewsQA, not SQuAD"):
        load(tmp_path, mrqa("NewsQA"), "squad")


def test_the_hubs_parquet(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    span = pyarrow.struct(
        [("start", pyarrow.list_(pyarrow.int32())), ("end", pyarrow.list_(pyarrow.int32()))]
    )
    answers = pyarrow.struct([("text", pyarrow.list_(pyarrow.string())), ("char_spans", pyarrow.list_(span))])
    begin = TEXT.index("Ann Lee")
    marked = {
        "text": ["Ann Lee"],
        "char_spans": [{"start": [begin, begin + 15], "end": [begin + 6, begin + 21]}],
    }
    rows = [
        {"subset": s, "qid": f"{s}-0", "context": TEXT, "question": "Who?", "detected_answers": marked}
        for s in ("SQuAD", "NewsQA", "NaturalQuestionsShort")
    ]
    schema = pyarrow.schema(
        [(n, pyarrow.string()) for n in ("subset", "qid", "context", "question")]
        + [("detected_answers", answers)]
    )
    file = tmp_path / "validation.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), file)
    for task, subset in span_files.SUBSETS.items():
        (record,) = load(tmp_path, file.read_bytes(), task)
        assert record.id == f"{subset}-0"
        assert [TEXT[a:b] for a, b in record.spans] == ["Ann Lee", "Ann Lee"]
    with pytest.raises(UserError, match="not a sound parquet file"):
        load(tmp_path, b"PAR1 and nothing else", "squad")


def test_natural_questions_paragraph_without_its_html(tmp_path: Path) -> None:
    first, whole = load(tmp_path, natural(), "natural_questions")
    assert first.context == "The mill was built by Ann Lee ."
    assert (first.id, first.question, first.answers) == ("17", "who built the mill", ("Ann Lee",))
    assert [first.context[a:b] for a, b in first.spans] == ["Ann Lee"]
    assert (whole.context, whole.spans) == (first.context, first.spans)


def test_nq_open_marks_every_occurrence_in_the_gold_passage(tmp_path: Path) -> None:
    passages = [
        {"title": "Other", "text": "Ann Lee was here.", "isgold": False},
        {"title": "Mill", "text": TEXT, "isgold": True},
    ]
    line = {"question": "who built the mill", "answers": ["Ann Lee", "Nobody"], "ctxs": passages}
    (record,) = load(tmp_path, json.dumps(line) + "\n", "natural_questions")
    assert (record.title, record.context, record.answers) == ("Mill", TEXT, ("Ann Lee",))
    assert len(record.spans) == 2
    with pytest.raises(UserError, match="field 'answers' is not a list"):
        load(tmp_path, json.dumps(line | {"answers": "Ann Lee"}), "natural_questions")


def test_newsqa_consensus(tmp_path: Path) -> None:
    (record,) = load(tmp_path, newsqa(), "newsqa")
    assert (record.id, record.answers) == ("./s/1.story-0", ("in 1874",))


def test_spans_lose_white_space_and_repetition(tmp_path: Path) -> None:
    content = squad(text=" Ann Lee", answer_start=TEXT.index(" Ann Lee"))
    asked = content["data"][0]["paragraphs"][0]["qas"][0]
    asked["answers"] *= 3
    (record,) = load(tmp_path, content)
    assert record.spans == ((22, 29),)


def test_occurrences() -> None:
    assert list(occurrences("aaa", "aa")) == [(0, 2), (1, 3)]
    assert list(occurrences("aaa", "")) == []
    record = SpanRecord("q", "", TEXT, "?", ("Ann Lee",), ((22, 29),))
    assert [TEXT[a:b] for a, b in all_occurrences(record)] == ["Ann Lee", "Ann Lee"]


@pytest.mark.parametrize(
    ("content", "task", "message"),
    [
        (squad(answer_start=21), "squad", "does not hold 'Ann Lee' at 21"),
        (squad(answer_start="22"), "squad", "field 'answer_start' is not a whole number"),
        (squad(text=7), "squad", "field 'text' is not a string"),
        ({"data": [7]}, "squad", "data[0]: not a format known here"),
        ({"data": {}}, "squad", "field 'data' is not a list"),
        ({"rows": []}, "squad", "not a format known here"),
        ("[1, 2]", "squad", "not a JSON object"),
        ("{nothing", "squad", "not JSON"),
        ("", "squad", "not JSON"),
        ({"data": []}, "squad", "no question with an annotated span"),
        (mrqa("SQuAD", detected_answers="Tom"), "squad", "field 'detected_answers' is not a list"),
        (mrqa("SQuAD", detected_answers=[{"char_spans": [[0]]}]), "squad", "not [first, last]"),
        (mrqa("SQuAD", detected_answers=[{"char_spans": [[0, 999]]}]), "squad", "span (0, 1000) is not in"),
        (mrqa("SQuAD", detected_answers=[{"char_spans": [[3, 3]]}]), "squad", "holds white space alone"),
        (mrqa("SQuAD", question=" "), "squad", "the question is empty"),
        (b"\x1f\x8bnot gzip", "squad", "not a sound gzip file"),
        (b"\xff\xfe{\x00", "squad", "not JSON"),
    ],
)
def test_bad_files_are_one_line_that_says_where(
    tmp_path: Path, content: Any, task: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, content, task)
    assert message in str(caught.value)
    assert str(tmp_path / "file") in str(caught.value)
    assert "\n" not in str(caught.value)
