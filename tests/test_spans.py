"""Span sets as a data set: contexts filled, spans mapped to tokens; on files made here."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from bench import plugins
from bench.data.requests import build_requests
from bench.dataset import Sample
from bench.errors import UserError
from tests._fit import word_fit
from tests._golden import squad_file
from tests._tokenizer import tiny_tokenizer

spans = plugins.load("datasets", "spans")
TEXT = "The mill was built by Ann Lee. Later Ann Lee sold it to Tom Orme in 1874."


def squad() -> dict[str, Any]:
    answer = {"text": "Ann Lee", "answer_start": TEXT.index("Ann Lee")}
    asked = {"id": "q0", "question": "Who built it?", "answers": [answer]}
    return {"data": [{"title": "The_mill", "paragraphs": [{"context": TEXT, "qas": [asked]}]}]}


def many(n: int) -> dict[str, Any]:
    """n paragraphs of about 20 words with one question each."""
    articles = []
    for i in range(n):
        text = f"Town number {i} has a mill. " + "It stands on a river and grinds corn all day. " * 2
        text += f"It was built in the year {1500 + i} by masons."
        answer = {"text": str(1500 + i), "answer_start": text.index(str(1500 + i))}
        asked = {"id": f"q{i}", "question": f"When was mill {i} built?", "answers": [answer]}
        articles.append({"title": f"Town_{i}", "paragraphs": [{"context": text, "qas": [asked]}]})
    return {"data": articles}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(many(30)))
    return path


def make(path: Path | None, n: int = 4, tokens: int = 200, seed: int = 1, **options: Any) -> list[Sample]:
    made: list[Sample] = spans.SpanSets(task="squad", path=path and str(path), **options).samples(
        word_fit(tokens), n, seed
    )
    return made


def test_the_paragraph_stands_among_others_and_the_context_is_full(file: Path) -> None:
    for s in make(file, n=12):
        assert len(s.context.split()) == 200
        assert [s.context[a:b] for a, b in s.evidence] == list(s.references)
        assert s.context.count(s.references[0]) == 1, "no other paragraph holds the answer"
        heads = [line for line in s.context.split("\n") if line.startswith("Passage ")]
        assert heads[:5] == [f"Passage {k}:" for k in range(1, 6)]
        assert len(set(heads)) == len(heads)
    places = {s.evidence[0][0] * 3 // len(s.context) for s in make(file, n=12)}
    assert places == {0, 1, 2}, "the paragraph's place varies"


def test_deterministic_with_the_prefix_property(file: Path) -> None:
    assert make(file, n=5)[:2] == make(file, n=2)
    assert make(file) != make(file, seed=2)
    assert len({s.id for s in make(file, n=12)}) == 12


def test_alone_and_every_occurrence(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad()))
    (s,) = make(path, n=1, fill=False)
    assert s.context == f"Passage 1:\nThe mill\n{TEXT}"
    assert [s.context[a:b] for a, b in s.evidence] == ["Ann Lee"]
    (s,) = make(path, n=1, fill=False, occurrences="all")
    assert [s.context[a:b] for a, b in s.evidence] == ["Ann Lee", "Ann Lee"]
    assert spans.SpanSets(task="squad", fill=False).takes_short
    assert not spans.SpanSets(task="squad").takes_short


@pytest.mark.parametrize("occurrences", ["annotated", "all"])
def test_characters_become_token_positions(tmp_path: Path, occurrences: str) -> None:
    """The evidence's tokens, decoded, hold the answer and at most the rest of its first and last token."""
    (tmp_path / "squad.json").write_text(json.dumps(squad_file()))
    options = {"path": str(tmp_path), "occurrences": occurrences}
    made, facts = build_requests("spans/squad", tiny_tokenizer(), 3, 24, 3, 0, options)
    for r in made:
        context = [t for chunk in r.chunks for t in chunk]
        text = tiny_tokenizer().decode([context[t] for t in r.evidence])
        assert r.references[0] in text
        inner = tiny_tokenizer().decode([context[t] for t in r.evidence[1:-1]])
        assert inner in r.references[0]
        assert list(r.evidence) == list(range(r.evidence[0], r.evidence[-1] + 1))
    assert facts["evidence_spans"] == 3
    assert facts["note"] == "LongBench-format, not LongBench"
    assert facts["source"]["occurrences"] == occurrences


def test_too_long_paragraphs_are_counted(file: Path, tmp_path: Path) -> None:
    long = squad()
    long["data"][0]["paragraphs"][0]["context"] = TEXT + " more" * 500
    mixed = {"data": long["data"] + many(30)["data"]}
    file.write_text(json.dumps(mixed))
    data = spans.SpanSets(task="squad", path=str(file))
    data.samples(word_fit(200), 30, 1)
    facts = data.provenance()
    assert (facts["skipped_too_long"], facts["questions_read"]) == (1, 31)
    assert facts["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts["revision"] is None
    with pytest.raises(UserError, match=r"31 questions asked for, 30 there \(1 paragraphs longer than 200"):
        data.samples(word_fit(200), 31, 1)


def test_errors(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="do not fill 5000 tokens"):
        make(file, tokens=5000)
    with pytest.raises(UserError, match="SHA-256 is"):
        make(file, sha256="ab")
    with pytest.raises(UserError, match='"annotated" or "all"'):
        make(file, occurrences="some")
    with pytest.raises(UserError, match="limit must be at least 1"):
        make(file, limit=0)
    with pytest.raises(UserError, match="3 questions asked for, 2 there"):
        make(file, n=3, limit=2, tokens=45)
    with pytest.raises(UserError, match="no file /nowhere"):
        make(Path("/nowhere"))
    (tmp_path / "squad.json").rename(tmp_path / "newsqa.json")
    with pytest.raises(UserError, match="holds 0 files squad"):
        make(tmp_path)


def test_the_variable_names_a_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCBENCH_SPANS", str(file.parent))
    assert make(None) == make(file)


def test_offline_is_one_line_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCBENCH_SPANS", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    started = time.monotonic()
    with pytest.raises(UserError, match=r"offline mode.*path=FILE") as caught:
        make(None)
    assert time.monotonic() - started < 1
    assert "\n" not in str(caught.value)
