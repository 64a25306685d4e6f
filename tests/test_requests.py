"""Samples become requests: ids, chunks, evidence, the chat template, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from bench.data import requests
from bench.data import turn as turns
from bench.data.requests import build_requests, dataset_of, recurring_share
from bench.errors import UserError
from tests._tokenizer import SPECIAL, tiny_tokenizer

MINE = """
from dataclasses import dataclass
from bench.dataset import Dataset, Sample

TEXTS = {texts!r}

@dataclass
class Mine(Dataset):
    evidence: tuple = ()
    needles: tuple = ()
    short: bool = False
    name, about, metric = "mine", "a test's own", "f1"
    tasks = ("a", "b") if {tasks} else ("",)

    def samples(self, fit, n, seed):
        return [
            Sample(f"s{{i}}", "Read.\\n", text, "\\nWho?", ("x",), 4, " So", self.evidence, self.needles)
            for i, text in enumerate(TEXTS[:n])
        ]

    @property
    def takes_short(self):
        return self.short

DATASET = Mine
"""


def mine(folder: Path, *texts: str, tasks: bool = False) -> str:
    path = folder / "mine.py"
    path.write_text(MINE.format(texts=list(texts), tasks=tasks))
    return str(path)


def ids(text: str) -> list[int]:
    coded = tiny_tokenizer()(text, add_special_tokens=False, split_special_tokens=True)
    return list(coded["input_ids"])


def one(spec: str, chunks: int, chunk_tokens: int, **options: Any) -> Any:
    return build_requests(spec, tiny_tokenizer(), chunks, chunk_tokens, 1, 0, options)[0][0]


def test_ids_decode_to_the_whole_prompt(tmp_path: Path) -> None:
    text = "The town lies on a river. It is green."
    r = one(mine(tmp_path, text), 2, -(-len(ids(text)) // 2))
    assert tiny_tokenizer().decode(r.ids) == (
        f"<|im_start|>user\nRead.\n{text}\nWho?<|im_end|>\n<|im_start|>assistant\n So"
    )
    assert (r.id, r.references, r.max_new_tokens) == ("s0", ("x",), 4)


def test_segments_are_tokenised_apart_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The town lies on a river. It is green."
    seen: list[str] = []
    original = turns.Turn.text

    def spy(turn: Any, text: str) -> Any:
        seen.append(text)
        return original(turn, text)

    monkeypatch.setattr(turns.Turn, "text", spy)
    r = one(mine(tmp_path, text), 1, 500)
    assert seen == [text, "\nWho?"]
    assert list(r.chunks[0]) == ids(text)
    assert list(r.prefix[-len(ids("Read.\n")) :]) == ids("Read.\n")
    assert list(r.query[: len(ids("\nWho?"))]) == ids("\nWho?")


@pytest.mark.parametrize("special", SPECIAL)
def test_special_tokens_in_a_text_stay_text(tmp_path: Path, special: str) -> None:
    r = one(mine(tmp_path, f"a {special} b"), 1, 500)
    tokenizer = tiny_tokenizer()
    reserved = set(tokenizer.convert_tokens_to_ids(SPECIAL))
    assert not reserved & set(r.chunks[0])
    assert tokenizer.decode(r.chunks[0]) == f"a {special} b"
    assert sum(i in reserved for i in r.ids) == 3, "those of the template stay special"


@settings(deadline=None, max_examples=40)
@given(st.text(min_size=1, max_size=60), st.integers(1, 12))
def test_chunks_are_slices_of_the_contexts_ids(text: str, size: int) -> None:
    turn = turns.Turn(tiny_tokenizer())
    sample = requests.Sample("s", "", text, "", ("x",), 1)
    whole = ids(text)
    r, _ = requests._request(sample, "d", turn, -(-len(whole) // size), size)
    assert [t for c in r.chunks for t in c] == whole
    assert {len(c) for c in r.chunks[:-1]} <= {size}
    assert 1 <= len(r.chunks[-1]) <= size


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=60), st.integers(0, 40))
def test_cut_and_tail_never_exceed_n_tokens(text: str, n: int) -> None:
    fit = turns.Turn(tiny_tokenizer()).fit(n)
    first, last = fit.cut(text, n), fit.tail(text, n)
    assert text.startswith(first)
    assert text.endswith(last)
    assert fit.count(first) <= n
    assert fit.count(last) <= n
    if fit.count(text) <= n:
        assert first == last == text


def test_evidence_positions_decode_to_the_answer(tmp_path: Path) -> None:
    text = "é😀 was founded by Zoë Quist. Zoë Quist went there."
    span = (text.index("Zoë"), text.index("Zoë") + len("Zoë Quist"))
    r = one(mine(tmp_path, text), 1, 500, evidence=(span,))
    context = [t for c in r.chunks for t in c]
    assert tiny_tokenizer().decode([context[t] for t in r.evidence]).strip() == "Zoë Quist"
    assert list(r.evidence) == list(range(r.evidence[0], r.evidence[-1] + 1))


def test_evidence_across_a_chunk_edge_is_counted(tmp_path: Path) -> None:
    text = "7402913 7402914"
    half = len(ids("740"))
    spec = mine(tmp_path, text)
    _, facts = build_requests(
        spec, tiny_tokenizer(), -(-len(ids(text)) // half), half, 1, 0, {"evidence": ((0, 7),)}
    )
    assert (facts["evidence_spans"], facts["evidence_spans_straddling"]) == (1, 1)
    _, facts = build_requests(spec, tiny_tokenizer(), 1, 500, 1, 0, {"evidence": ((0, 7), (8, 15))})
    assert (facts["evidence_spans"], facts["evidence_spans_straddling"]) == (2, 0)


def test_needles_are_counted_apart_from_the_evidence_in_them(tmp_path: Path) -> None:
    text = "7402913 7402914"
    spec = mine(tmp_path, text)
    options = {"evidence": ((0, 3),), "needles": ((0, 7), (8, 15))}
    half = len(ids("7402"))
    made, facts = build_requests(spec, tiny_tokenizer(), -(-len(ids(text)) // half), half, 1, 0, options)
    assert (facts["evidence_spans"], facts["evidence_spans_straddling"]) == (1, 0)
    context = [t for chunk in made[0].chunks for t in chunk]
    assert tiny_tokenizer().decode([context[t] for t in made[0].needles]).replace(" ", "") == "74029137402914"
    assert set(made[0].evidence) < set(made[0].needles)
    assert (facts["needles"], facts["needles_straddling"]) == (2, 2)


@pytest.mark.parametrize(
    ("begins", "size", "message"),
    [
        ((0, 9), 60, ""),
        ((0, 9), 3, "must keep each to 3"),
        ((1, 9), 60, "chunk_begins must grow from 0"),
        ((0, 9, 9), 60, "chunk_begins must grow from 0"),
        ((0, 900), 60, "chunk_begins must grow from 0"),
    ],
)
def test_chunks_of_a_samples_own_lengths(
    tmp_path: Path, begins: tuple[int, ...], size: int, message: str
) -> None:
    text = "The town lies on a river."
    spec = mine(tmp_path, text)
    Path(spec).write_text(
        Path(spec).read_text().replace("self.needles)", f"self.needles, chunk_begins={begins})")
    )
    if message:
        with pytest.raises(UserError, match=message):
            one(spec, 2, size)
    else:
        made, facts = build_requests(spec, tiny_tokenizer(), 2, size, 1, 0, {"needles": ((4, 8), (4, 13))})
        assert made[0].chunks == (tuple(ids(text[:9])), tuple(ids(text[9:])))
        assert facts["needles_straddling"] == 1


@settings(deadline=None, max_examples=80)
@given(st.text(min_size=1, max_size=50), st.data())
def test_tokens_of_a_span_are_those_that_share_a_character(text: str, data: st.DataObject) -> None:
    offsets = turns.Turn(tiny_tokenizer()).text(text)[1]
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    touched = list(requests._Tokens(offsets).touched(begin, end))
    assert touched == [t for t, (a, b) in enumerate(offsets) if a < end and b > begin]
    assert touched


def test_short_contexts_keep_their_chunks_where_a_dataset_takes_them(tmp_path: Path) -> None:
    text = "The town lies on a river."
    there = len(ids(text))
    made, facts = build_requests(
        mine(tmp_path, text, text * 9), tiny_tokenizer(), 9, there, 2, 0, {"short": True}
    )
    assert [len(c) for c in made[0].chunks] == [there]
    assert (facts["requests_short"], facts["chunks_min"], facts["context_tokens_min"]) == (1, 1, there)
    assert facts["chunks_total"] == 1 + len(made[1].chunks)
    assert facts["chunks_distinct"] == len({c for r in made for c in r.chunks})


def test_recurring_chunks(tmp_path: Path) -> None:
    size = len(ids("The grass"))
    texts = ["The grass is green.", "The grass is blue.", "go go go go go go"]
    chunks = [-(-len(ids(t)) // size) for t in texts]
    made = [
        build_requests(mine(tmp_path, t), tiny_tokenizer(), c, size, 1, 0)[0][0]
        for t, c in zip(texts, chunks, strict=True)
    ]
    assert 0 < recurring_share(made[:2]) < 1
    assert recurring_share([made[0], made[0]]) == 1
    assert recurring_share([made[2]]) == 0, "a repeat within one request is not another's work"


def test_no_chat_template_means_bos_only_where_the_tokenizer_adds_it(tmp_path: Path) -> None:
    plain = tiny_tokenizer(chat=False)
    spec = mine(tmp_path, "The town.")
    r = build_requests(spec, plain, 1, 99, 1, 0)[0][0]
    assert plain.decode(r.ids) == "Read.\nThe town.\nWho? So"

    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    backend = Tokenizer.from_str(plain.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    adding = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|endoftext|>")
    r = build_requests(spec, adding, 1, 99, 1, 0)[0][0]
    assert r.ids.count(adding.bos_token_id) == 1
    assert r.ids[0] == adding.bos_token_id


def test_provenance(tmp_path: Path) -> None:
    made, facts = build_requests("multihop", tiny_tokenizer(), 3, 400, 2, 5, {"hops": 1})
    assert facts["note"] == "LongBench-format, not LongBench"
    assert facts["source"] == {"hops": 1, "rivals": 0, "described": True}
    assert facts["options"] == {"hops": 1}
    assert (facts["samples"], facts["seed"], facts["chunks"], facts["chunk_tokens"]) == (2, 5, 3, 400)
    assert facts["context_tokens_mean"] == sum(r.context_tokens for r in made) / 2
    assert all(len(r.chunks) == 3 and r.dataset == "multihop" for r in made)
    again, _ = build_requests("multihop", tiny_tokenizer(), 3, 400, 2, 5, {"hops": 1})
    assert [r.sha256 for r in again] == [r.sha256 for r in made]


def test_a_users_own_file_and_its_tasks(tmp_path: Path) -> None:
    assert dataset_of(mine(tmp_path, "x")).name == "mine"
    path = mine(tmp_path, "x", tasks=True)
    assert dataset_of(f"{path}/b").task == "b"
    with pytest.raises(UserError, match=r"there are: .*mine\.py/a, .*mine\.py/b"):
        dataset_of(path)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            "nope",
            {},
            "there are: calibration, longbench, multihop, passages, ruler, ruler_files, spans",
        ),
        ("ruler", {}, "there are: ruler/single, ruler/mq, ruler/mv, ruler/vt"),
        ("ruler/cwe", {}, "unknown task 'ruler/cwe'"),
        ("multihop/x", {}, "there are: multihop"),
        ("multihop", {"hop": 1}, "no parameter 'hop'; it has: hops, rivals"),
        ("longbench/musique", {"_facts": {}}, "no parameter '_facts'; it has: path, sha256, truncation"),
        ("./gone.py", {}, "no file ./gone.py"),
    ],
)
def test_unknown_names(spec: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        dataset_of(spec, options)
    assert message in str(caught.value)


def test_a_file_without_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("DATASET = 3\n")
    with pytest.raises(UserError, match="DATASET must name a subclass"):
        dataset_of(str(tmp_path / "empty.py"))


@pytest.mark.parametrize("name", ["chunks", "chunk_tokens", "n"])
def test_numbers_below_one(name: str) -> None:
    numbers = {"chunks": 1, "chunk_tokens": 400, "n": 1} | {name: 0}
    with pytest.raises(UserError, match=f"{name} must be at least 1, not 0"):
        build_requests("multihop", tiny_tokenizer(), seed=0, **numbers)


def test_sample_errors(tmp_path: Path) -> None:
    spec = mine(tmp_path, "The town.")
    there = len(ids("The town."))
    with pytest.raises(UserError, match=f"more chunks than the sample has: sample s0, 99 .* {there} there"):
        one(spec, 99, 1)
    with pytest.raises(UserError, match="must keep it to 1 x 1"):
        one(spec, 1, 1)
    with pytest.raises(UserError, match=r"evidence \(0, 99\)"):
        one(spec, 1, 99, evidence=((0, 99),))
    with pytest.raises(UserError, match="2 samples asked for, 1 there"):
        build_requests(spec, tiny_tokenizer(), 1, 99, 2, 0)


def test_tokenizer_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().backend_tokenizer)
    tokenizer.chat_template = "{{ messages[0]['content'] }}{{ messages[0]['content'] }}"
    with pytest.raises(UserError, match="exactly once"):
        build_requests(mine(tmp_path, "x"), tokenizer, 1, 9, 1, 0)
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", property(lambda _: False))
    with pytest.raises(UserError, match="slow tokenizer"):
        build_requests(mine(tmp_path, "x"), tokenizer, 1, 9, 1, 0)
