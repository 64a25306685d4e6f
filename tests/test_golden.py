"""Whole prompts, byte for byte (`tests/_golden.py` says how to change them on purpose)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench import plugins
from bench.data import ruler_format
from tests import _golden, _sharing

NAMES = sorted(p.stem for p in _golden.FOLDER.glob("*.txt"))
ruler = plugins.load("datasets", "ruler")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return _golden.requests()


def kept(name: str) -> bytes:
    return (_golden.FOLDER / f"{name}.txt").read_bytes()


def changed(text: str) -> str:
    """One byte other, the second one: where no template has a field."""
    return f"{text[0]}~{text[2:]}"


def test_every_golden_file_is_made_and_every_one_made_is_there(made: dict[str, Any]) -> None:
    assert sorted(made) == NAMES
    assert {f"ruler-{task}-{seed}" for task in ruler.Ruler.tasks for seed in (1, 42)} < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_prompt_is_the_golden_one(made: dict[str, Any], name: str) -> None:
    assert _golden.prompt(made[name]).encode() == kept(name)


def test_the_rest_of_the_requests_is_the_golden_one(made: dict[str, Any]) -> None:
    told = json.loads((_golden.FOLDER / _golden.ANSWERS).read_text(encoding="utf-8"))
    assert told == {name: _golden.answers(request) for name, request in made.items()}


@pytest.mark.parametrize(
    ("part", "names"),
    [
        *((f"NIAH.{field}", ("ruler-mq-1", "ruler-mv-1", "ruler-single-1")) for field in ("before", "after")),
        ("NIAH.answer_prefix", ("ruler-mq-1", "ruler-mv-1", "ruler-single-1")),
        *((f"VT.{field}", ("ruler-vt-1",)) for field in ("before", "after", "answer_prefix")),
        ("NEEDLE", ("ruler-mq-1", "ruler-mv-1", "ruler-single-1")),
        ("NOISE", ("ruler-vt-1",)),
        ("enumerate_keys", ("ruler-mq-1",)),
        ("chain", ("ruler-vt-1",)),
    ],
)
def test_one_byte_of_rulers_text_breaks_it(
    monkeypatch: pytest.MonkeyPatch, part: str, names: tuple[str, ...]
) -> None:
    owner, _, field = part.partition(".")
    now = getattr(ruler, owner)
    if field:
        other: Any = dataclasses.replace(now, **{field: changed(getattr(now, field))})
    elif isinstance(now, str):
        other = changed(now)
    elif owner == "chain":
        other = lambda names, value: [f"{line} " for line in now(names, value)]  # noqa: E731
    else:
        other = lambda keys: now(keys).replace(", and ", " and ")  # noqa: E731
    monkeypatch.setattr(ruler, owner, other)
    with _golden.own_haystack():
        for name in names:
            _, task, seed = name.split("-")
            options = {"demo_tokens": 1400} if task == "vt" else {}
            request = _golden.one(f"ruler/{task}", 4, 400, int(seed), **options)
            assert _golden.prompt(request).encode() != kept(name)


@pytest.mark.parametrize("part", ["BEFORE_CONTEXT", "after_context"])
def test_one_byte_of_longbenchs_text_breaks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str
) -> None:
    longbench = plugins.load("datasets", "longbench")
    (tmp_path / "musique.jsonl").write_text(json.dumps(_golden.longbench_record("musique")) + "\n")

    def written() -> bytes:
        request = _golden.one("longbench/musique", 4, 400, 0, path=str(tmp_path))
        return _golden.prompt(request).encode()

    assert written() == kept("longbench-musique")
    now = getattr(longbench, part)
    monkeypatch.setattr(longbench, part, changed(now) if isinstance(now, str) else lambda q: changed(now(q)))
    assert written() != kept("longbench-musique")


def test_longbenchs_golden_prompt_is_not_nested() -> None:
    text = kept("longbench-musique").decode()
    assert text.count("The following are given passages.") == 1
    assert "Question: Question:" not in text
    assert text.endswith("\nAnswer:<|im_end|>\n<|im_start|>assistant\n")
    assert "passages.\nPassage 1:\n" in text, "one newline, not two"


def test_templates_are_spelled_as_at_rulers_present_head() -> None:
    whole = "".join(dataclasses.astuple(ruler_format.NIAH) + dataclasses.astuple(ruler_format.VT))
    assert "assgined" not in whole
    assert ruler_format.VT.answer_prefix.endswith("they are: ")
    assert ruler_format.NIAH.answer_prefix.startswith(" The special")
    assert (ruler_format.NIAH_TOKENS, ruler_format.VT_TOKENS) == (128, 30)


def sharing() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_sharing.FILE.read_text())
    return rows


def test_rulers_card_shows_the_measured_table() -> None:
    card = (plugins.folder("datasets") / "cards" / "ruler.md").read_text()
    lines = _sharing.table(sharing())
    assert len(lines) == len(_sharing.ROWS)
    assert "\n".join(lines) in card


@pytest.mark.models
@pytest.mark.parametrize("row", range(len(_sharing.ROWS)))
def test_real_requests_are_those_measured(row: int) -> None:
    requests, _ = _sharing.made(*_sharing.ROWS[row], _sharing.FIRST)
    assert _sharing.digest(requests) == sharing()[row]["first"]
