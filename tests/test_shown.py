"""What a run keeps of its first requests for the page."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.request import Request
from bench.results.shown import (
    PROMPTS,
    SELECTIONS,
    Selection,
    layers_of,
    prompt_of,
    read_prompts,
    read_selections,
    token_texts,
)
from bench.results.writer import RowWriter


class Bytes:
    """A tokenizer whose tokens are bytes, so that characters span tokens."""

    def decode(self, ids: list[int], **_: bool) -> str:
        return bytes(ids).decode("utf-8", "replace")


@given(st.text())
def test_token_texts_concatenate_to_the_text(text: str) -> None:
    ids = list(text.encode("utf-8", "replace"))
    texts = token_texts(ids, Bytes())
    assert len(texts) == len(ids)
    assert "".join(texts) == Bytes().decode(ids)


@given(st.lists(st.sets(st.integers(0, 40)), min_size=1, max_size=6))
def test_layers_keep_every_position(layers: list[set[int]]) -> None:
    found = layers_of([torch.tensor(sorted(at), dtype=torch.int64) for at in layers])
    spread = [item.numbers() for item in found for _ in range(item.first, item.last + 1)]
    assert spread == [sorted(at) for at in layers]
    assert all(a.positions != b.positions for a, b in pairwise(found))


def test_prompt_has_its_parts() -> None:
    request = Request("r", "d", (65,), ((66, 67), (0xC3, 0xA9)), (68,), ("B",), 4, evidence=(0,))
    prompt = prompt_of(request, "m", Bytes())
    assert (prompt.instruction, prompt.context, prompt.query) == (["A"], ["B", "C", "", "é"], ["D"])
    assert (prompt.chunk_starts, prompt.evidence, prompt.references) == ([0, 2], [0], ["B"])


def test_reading_back_keeps_the_last_and_leaves_out_what_a_kill_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def line(positions: str) -> str:
        which = {"cell": "c", "model": "m", "dataset": "d", "method": "epic", "rho": 0.3, "request": "r"}
        layers = [{"first": 0, "last": 3, "positions": positions}]
        return Selection.model_validate(which | {"layers": layers}).model_dump_json() + "\n"

    assert read_prompts(tmp_path) == read_selections(tmp_path) == []
    (tmp_path / SELECTIONS).write_text(line("1") + line("9")[:40])
    writer = RowWriter(tmp_path / "rows.jsonl", {})
    writer.append_beside(SELECTIONS, [Selection.model_validate_json(line("1-3"))])  # a resumed run goes on
    writer.close()
    with caplog.at_level(logging.WARNING):
        (kept,) = read_selections(tmp_path)
    assert kept.layers[0].numbers() == [1, 2, 3]
    assert "selections.jsonl:2: not a selection, left out" in caplog.text
    (tmp_path / PROMPTS).write_text("{}\n")
    with caplog.at_level(logging.WARNING):
        assert read_prompts(tmp_path) == []
    assert "prompts.jsonl:1" in caplog.text


def test_a_tokenizer_that_strips_leading_spaces_keeps_them() -> None:
    """As SentencePiece's do: the first token of what is decoded loses its space."""

    class Pieces:
        words = ("▁the", "▁cat", "s", "▁", "▁the")

        def decode(self, ids: list[int], **_: bool) -> str:
            return "".join(self.words[i] for i in ids).replace("▁", " ").removeprefix(" ")

    texts = token_texts(range(5), Pieces())
    assert "".join(texts) == Pieces().decode([0, 1, 2, 3, 4])
    assert texts[1] == " cat"
