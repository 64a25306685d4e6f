"""HotpotQA, 2WikiMultihopQA and MuSiQue as published: records in their shape, made here."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench import plugins
from bench.data.requests import build_requests
from bench.data.turn import Turn
from bench.dataset import Sample
from bench.errors import UserError
from bench.metrics import METRICS
from tests._tokenizer import byte_tokenizer, tiny_tokenizer

passages = plugins.load("datasets", "passages")
REAL = "QCBENCH_TEST_MUSIQUE"
"""Names a file of real MuSiQue records; without it one test is skipped."""

MILL = ("Arden Mill", ["Arden Mill stands on the Teme.", " It was built by Ann Lee."])
ANN = ("Ann Lee", ["Ann Lee built mills.", " She was born in Borley."])


def hotpot(i: int = 0, **changes: Any) -> dict[str, Any]:
    others = [(f"Town {k}", [f"Town {k} is a town.", f" It has {k} wells."]) for k in range(8)]
    return {
        "_id": f"h{i}",
        "question": "Where was the builder of Arden Mill born?",
        "answer": "Borley",
        "supporting_facts": [["Arden Mill", 1], ["Ann Lee", 1]],
        "context": [others[0], MILL, *others[1:7], ANN, others[7]],
        "type": "bridge",
        "level": "easy",
    } | changes


def musique(i: int = 0, **changes: Any) -> dict[str, Any]:
    texts = [(t, "".join(s)) for t, s in (MILL, *[(f"Town {k}", [f"Town {k} is."]) for k in range(4)], ANN)]
    return {
        "id": f"2hop__{i}_9",
        "paragraphs": [
            {"idx": k, "title": t, "paragraph_text": s, "is_supporting": k in (0, 5)}
            for k, (t, s) in enumerate(texts)
        ],
        "question": "Where was the builder of Arden Mill born?",
        "question_decomposition": [],
        "answer": "Borley",
        "answer_aliases": ["the town of Borley"],
        "answerable": True,
    } | changes


def write(path: Path, *records: Any, lines: bool = False) -> Path:
    text = "\n".join(json.dumps(r) for r in records) + "\n" if lines else json.dumps(list(records))
    path.write_text(text, encoding="utf-8")
    return path


def read(task: str, path: Path, chunks: int = 20, size: int = 100, n: int = 1, **options: Any) -> Any:
    return build_requests(
        f"passages/{task}", byte_tokenizer(), chunks, size, n, 0, {"path": str(path), **options}
    )


def texts(request: Any) -> list[str]:
    return [str(byte_tokenizer().decode(chunk)) for chunk in request.chunks]


def told(request: Any, positions: tuple[int, ...]) -> str:
    context = [t for chunk in request.chunks for t in chunk]
    return str(byte_tokenizer().decode([context[t] for t in positions]))


def test_a_paragraph_is_a_chunk_and_supporting_sentences_are_the_evidence(tmp_path: Path) -> None:
    (request,), facts = read("hotpotqa", write(tmp_path / "hotpot_dev.json", hotpot()))
    assert texts(request)[1] == (
        "Passage 2:\nArden Mill\nArden Mill stands on the Teme. It was built by Ann Lee.\n"
    )
    assert len(request.chunks) == 10
    assert told(request, request.evidence) == "It was built by Ann Lee.She was born in Borley."
    assert request.needles == request.evidence
    assert request.references == ("Borley",)
    assert facts["source"]["facts_missing"] == facts["evidence_spans_straddling"] == 0


def test_evidence_may_be_the_answers_own_place(tmp_path: Path) -> None:
    file = write(tmp_path / "hotpot.json", hotpot(0), hotpot(1, answer="yes"))
    both, _ = read("hotpotqa", file, n=2, evidence="answer")
    assert told(both[0], both[0].evidence) == "Borley"
    assert both[1].evidence == both[1].needles, "yes stands nowhere: the facts"


def test_gold_paragraphs_stay_where_chunks_are_few(tmp_path: Path) -> None:
    file = write(tmp_path / "hotpot.json", hotpot())
    (request,), facts = read("hotpotqa", file, chunks=3)
    assert [t.split("\n")[1] for t in texts(request)] == ["Town 0", "Arden Mill", "Ann Lee"]
    assert facts["source"]["paragraphs_left_out"] == 7
    with pytest.raises(UserError, match=r"1 records asked for, 0 usable there .*skipped_gold_too_long 1"):
        read("hotpotqa", file, chunks=1)


def test_a_long_paragraph_is_cut_to_a_chunk_and_the_loss_counted(tmp_path: Path) -> None:
    (request,), facts = read("hotpotqa", write(tmp_path / "hotpot.json", hotpot()), size=62)
    assert max(map(len, request.chunks)) <= 62
    assert all(text.endswith("\n") for text in texts(request)[:-1])
    assert facts["source"]["share_fact_cut"] == 1.0
    assert facts["source"]["share_answer_lost"] == 1.0
    assert told(request, request.evidence).startswith("It was")


def test_chunks_are_tokenised_apart(tmp_path: Path) -> None:
    file = write(tmp_path / "hotpot.json", hotpot())
    made, _ = build_requests("passages/hotpotqa", tiny_tokenizer(), 20, 100, 1, 0, {"path": str(file)})
    for chunk in made[0].chunks:
        text = tiny_tokenizer().decode(chunk)
        assert tuple(tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]) == chunk


def test_fixed_chunks_are_equal_but_the_last(tmp_path: Path) -> None:
    file = write(tmp_path / "hotpot.json", hotpot())
    (request,), _ = read("hotpotqa", file, chunks=4, size=64, chunking="fixed")
    assert {len(c) for c in request.chunks[:-1]} == {64}
    assert told(request, request.evidence) == "It was built by Ann Lee.She was born in Borley."


def test_musiques_paragraphs_aliases_and_unanswerable_records(tmp_path: Path) -> None:
    file = write(
        tmp_path / "musique_full.jsonl", musique(0, answerable=False, answer=""), musique(1), lines=True
    )
    (request,), facts = read("musique", file)
    assert request.references == ("Borley", "the town of Borley")
    assert told(request, request.evidence) == "".join([*MILL[1], *ANN[1]])
    assert facts["source"]["skipped_unanswerable"] == 1
    data = passages.Passages(task="musique")
    assert METRICS[data.scored_by].score("town of Borley", request.references) == 1.0


def test_two_wikis_aliases_lie_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path / "dev.json", hotpot(answer_id="Q1", evidences=[]))
    rows = [{"Q_id": "Q1", "aliases": ["Borley on Teme"], "demonyms": ["Borleyan"]}]
    write(tmp_path / "id_aliases.json", *rows, lines=True)
    (request,), facts = read("2wikimultihopqa", tmp_path)
    assert request.references == ("Borley", "Borley on Teme", "Borleyan")
    assert len(facts["source"]["aliases_sha256"]) == 64


def test_sentences_without_spaces_between_them_get_one(tmp_path: Path) -> None:
    context = [(t, [s.strip() for s in sentences]) for t, sentences in (MILL, ANN)]
    (request,), _ = read("2wikimultihopqa", write(tmp_path / "2wiki.json", hotpot(context=context)))
    assert "the Teme. It was built" in texts(request)[0]
    assert told(request, request.evidence) == "It was built by Ann Lee.She was born in Borley."


def test_yes_and_no_score_only_as_such() -> None:
    score = METRICS["f1_hotpotqa"].score
    assert score("no", ["no"]) == score("No.", ["no"]) == 1.0
    assert score("no way", ["no"]) == score("yes", ["yes we can"]) == 0.0
    assert score("Ann Lee", ["Lee"]) == METRICS["f1"].score("Ann Lee", ["Lee"])


def test_facts_that_point_nowhere_are_counted(tmp_path: Path) -> None:
    facts = [["Arden Mill", 1], ["Ann Lee", 7], ["Nobody", 0]]
    made, told_facts = read("hotpotqa", write(tmp_path / "hotpot.json", hotpot(supporting_facts=facts)))
    assert told_facts["source"]["facts_missing"] == 2
    assert told(made[0], made[0].evidence) == "It was built by Ann Lee."


def test_order_of_the_file_and_prefix_property(tmp_path: Path) -> None:
    file = write(tmp_path / "hotpot.json", *(hotpot(i) for i in range(4)))
    assert [r.id for r in read("hotpotqa", file, n=4)[0]][:2] == [
        r.id for r in read("hotpotqa", file, n=2)[0]
    ]


@pytest.mark.parametrize("kind", ["gzip", "bom", "crlf"])
def test_files_as_they_come(tmp_path: Path, kind: str) -> None:
    data = "\r\n".join(json.dumps(musique(i)) for i in range(2)).encode()
    name = "musique.jsonl"
    if kind == "gzip":
        data, name = gzip.compress(data), "musique.jsonl.gz"
    elif kind == "bom":
        data = b"\xef\xbb\xbf" + data
    (tmp_path / name).write_bytes(data)
    assert len(read("musique", tmp_path, n=2)[0]) == 2


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("hotpotqa", hotpot(answer=""), "field 'answer' is empty"),
    (
        "hotpotqa",
        hotpot(supporting_facts=[["Arden Mill", "1"]]),
        "'supporting_facts' holds something else than",
    ),
    ("hotpotqa", hotpot(context=[["Arden Mill", "text"]]), "'context' holds something else than"),
    (
        "hotpotqa",
        hotpot(context=[["Arden Mill", [1]]]),
        "'context' holds something else than a list of strings",
    ),
    ("hotpotqa", musique(), "field 'supporting_facts' is missing"),
    ("musique", hotpot(), "field 'paragraphs' is missing"),
    ("musique", musique(paragraphs=[]), "no paragraphs"),
    (
        "musique",
        musique(answer_aliases="Lee"),
        "'answer_aliases' holds something else than a list of strings",
    ),
]


@pytest.mark.parametrize(("task", "record", "message"), BAD)
def test_bad_records_are_one_line(tmp_path: Path, task: str, record: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(task, write(tmp_path / f"{task}.json", record))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_files_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCBENCH_PASSAGES", raising=False)
    with pytest.raises(UserError, match="no file given for musique; download it"):
        passages.Passages(task="musique").samples(None, 1, 0)
    with pytest.raises(UserError, match=r"holds no file hotpot\*"):
        read("hotpotqa", tmp_path)
    torn = tmp_path / "hotpot_a.json"
    torn.write_text(json.dumps([hotpot()])[:-9])
    with pytest.raises(UserError, match="not JSON"):
        read("hotpotqa", tmp_path)
    write(tmp_path / "hotpot_b.json", hotpot())
    with pytest.raises(UserError, match="holds 2 files for hotpotqa"):
        read("hotpotqa", tmp_path)
    with pytest.raises(UserError, match="is there twice"):
        read("hotpotqa", write(torn, hotpot(), hotpot()), n=2)
    for bad in ({"chunking": "words"}, {"evidence": "all"}):
        with pytest.raises(UserError, match="passages: "):
            passages.Passages(task="musique", **bad)


@pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} names no file of real MuSiQue records")
def test_real_records_of_musique() -> None:
    made, facts = read("musique", Path(os.environ[REAL]), size=3000, n=100)
    assert all(r.evidence and r.needles == r.evidence for r in made)
    assert {len(r.chunks) for r in made} == {20}
    assert facts["source"]["share_fact_cut"] == facts["source"]["share_answer_lost"] == 0.0


def test_samples_say_where_their_chunks_begin(tmp_path: Path) -> None:
    data = passages.Passages(task="hotpotqa", path=str(write(tmp_path / "hotpot.json", hotpot())))
    (s,) = data.samples(Turn(byte_tokenizer()).fit(2000, 100), 1, 0)
    assert isinstance(s, Sample)
    assert all(s.context[b:].startswith(f"Passage {k}:\n") for k, b in enumerate(s.chunk_begins, 1))
