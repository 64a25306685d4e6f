"""RULER's own JSONL, in the fields its scripts write; the text is made by `ruler/...` here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import plugins
from bench.data.requests import build_requests
from bench.dataset import Sample
from bench.errors import UserError
from tests._fit import word_fit
from tests._tokenizer import tiny_tokenizer

files = plugins.load("datasets", "ruler_files")
ruler = plugins.load("datasets", "ruler")
ESSAY = " ".join(f"On day {i} we walked to the mill. Was it far?" for i in range(300))
OF = {"niah_single_2": "single", "niah_multiquery": "mq", "niah_multivalue": "mv", "vt": "vt"}


@pytest.fixture(autouse=True)
def _essays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruler, "essays", lambda: (ESSAY, "0" * 64))


def ours(task: str, n: int = 2) -> list[Sample]:
    made: list[Sample] = ruler.Ruler(task=OF[task], **({"demo_tokens": 500} if task == "vt" else {})).samples(
        word_fit(400), n, 7
    )
    return made


def record(i: int, s: Sample, **changes: Any) -> dict[str, Any]:
    """A sample of ours as RULER would have written it."""
    return {
        "index": i,
        "input": s.instruction + s.context + s.query,
        "outputs": list(s.references),
        "length": 500,
        "length_w_model_temp": 500,
        "answer_prefix": s.answer_prefix,
        "token_position_answer": 1,
    } | changes


def write(folder: Path, task: str, *records: dict[str, Any]) -> Path:
    (folder / task).mkdir(exist_ok=True)
    (folder / task / "validation.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    return folder


def read(task: str, path: Path | None, n: int = 1, tokens: int = 500, **options: Any) -> list[Sample]:
    made: list[Sample] = files.RulerFiles(task=task, path=path and str(path), **options).samples(
        word_fit(tokens), n, 0
    )
    return made


@pytest.mark.parametrize("task", OF)
def test_a_file_is_taken_apart_as_our_own_samples_are(tmp_path: Path, task: str) -> None:
    mine = ours(task)
    write(tmp_path, task, *(record(i, s) for i, s in enumerate(mine)))
    for s, own in zip(read(task, tmp_path, 2), mine, strict=True):
        assert (s.instruction, s.context, s.query) == (own.instruction, own.context, own.query)
        assert (s.answer_prefix, s.references, s.max_new_tokens) == (
            own.answer_prefix, own.references, own.max_new_tokens
        )  # fmt: skip
        assert s.question == own.question
        assert s.evidence == own.evidence
        lines = [s.context[b:e].strip() for b, e in s.needles]
        assert lines == [own.context[b:e].strip() for b, e in own.needles]


def test_requests_are_made_of_them(tmp_path: Path) -> None:
    (own,) = ours("niah_multiquery", 1)
    write(tmp_path, "niah_multiquery", record(0, own))
    options = {"path": str(tmp_path)}
    made, facts = build_requests("ruler_files/niah_multiquery", tiny_tokenizer(), 40, 100, 1, 0, options)
    assert facts["needles"] == 4
    assert set(made[0].evidence) < set(made[0].needles)


def test_another_needle_tasks_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own,) = ours("niah_multivalue", 1)
    write(tmp_path, "niah_multikey_1", record(0, own))
    monkeypatch.setenv("QCBENCH_RULER_FILES", str(tmp_path))
    assert read("niah_multikey_1", None)[0].context == own.context


def test_only_needles_with_an_answer_count(tmp_path: Path) -> None:
    (own,) = ours("niah_multivalue", 1)
    write(tmp_path, "niah_multikey_1", record(0, own, outputs=list(own.references[:1])))
    (s,) = read("niah_multikey_1", tmp_path)
    assert len(s.needles) == len(s.evidence) == 1


def test_old_files_without_a_prefix(tmp_path: Path) -> None:
    (own,) = ours("niah_multiquery", 1)
    old = record(0, own, input=own.instruction + own.context + own.query + own.answer_prefix)
    del old["answer_prefix"]
    write(tmp_path, "niah_multiquery", old)
    (s,) = read("niah_multiquery", tmp_path)
    assert (s.context, s.answer_prefix) == (own.context, "")
    assert s.query.endswith(own.answer_prefix)


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("niah_multiquery", {"input": "<|im_start|>user\nSome"}, "prepare it with the template"),
        ("vt", {"input": "[INST] Memorize"}, "prepare it with the template"),
        ("vt", {"outputs": []}, "'outputs' is not a list of at least one string"),
        ("vt", {"outputs": "ABCDE"}, "field 'outputs' is not a list"),
        ("vt", {"input": 3}, "field 'input' is not a string"),
    ],
)
def test_bad_records_are_one_line(tmp_path: Path, task: str, changes: dict[str, Any], message: str) -> None:
    write(tmp_path, task, record(0, ours(task, 1)[0], **changes))
    with pytest.raises(UserError) as caught:
        read(task, tmp_path)
    assert message in str(caught.value)
    assert f"{task}/validation.jsonl, line 1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCBENCH_RULER_FILES", raising=False)
    with pytest.raises(UserError, match="no file given for vt"):
        read("vt", None)
    with pytest.raises(UserError, match=r"holds neither vt/validation\.jsonl nor vt\.jsonl"):
        read("vt", tmp_path)
    with pytest.raises(UserError, match="vt and those named niah_"):
        files.RulerFiles(task="cwe")
    write(tmp_path, "vt", record(0, ours("vt", 1)[0]))
    with pytest.raises(UserError, match="more than the 100 of the chunks"):
        read("vt", tmp_path, tokens=100)
    with pytest.raises(UserError, match="2 records asked for, 1 there"):
        read("vt", tmp_path, n=2)
