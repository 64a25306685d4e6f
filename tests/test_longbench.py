"""LongBench's loader, on records made here."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bench import plugins
from bench.data.requests import build_requests
from bench.dataset import Sample
from bench.errors import UserError
from tests._fit import word_fit
from tests._tokenizer import tiny_tokenizer

longbench = plugins.load("datasets", "longbench")

LINE = (
    "Answer the question based on the given passages."
    " Only give me the answer and do not output any other words."
)


def record(i: int = 0, **changes: Any) -> dict[str, Any]:
    filler = " ".join(f"w{k}" for k in range(40))
    return {
        "input": f"Who built {{bridge}} {i}?",
        "context": f"Passage 1:\nBridge {i}\n{filler}\nPassage 2:\nBuilder\nBy Ann Lee. {filler} Lee.",
        "answers": ["Ann Lee", "Lee"],
        "length": 90,
        "dataset": "musique",
        "language": "en",
        "all_classes": None,
        "_id": f"{i:032x}",
    } | changes


MIRRORED = {
    "context": f"{LINE}\n\nThe following are given passages.\nPassage 1:\nA\nLee\n\n{LINE}\n\n",
    "question": "Question: Who?\n",
    "answer_prefix": "Answer:",
    "answers": ["Lee"],
    "max_new_tokens": 52,
    "length": 3,
}


def write(folder: Path, *records: Any) -> Path:
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    (folder / "musique.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def read(path: Path | None, n: int = 1, tokens: int = 500, **options: Any) -> list[Sample]:
    made: list[Sample] = make(path, **options).samples(word_fit(tokens), n, 0)
    return made


def make(path: Path | None, **options: Any) -> Any:
    return longbench.LongBench(task="musique", path=path and str(path), **options)


def test_prompt_is_the_official_template(tmp_path: Path) -> None:
    s = read(write(tmp_path, record()))[0]
    assert s.instruction + s.context + s.query + s.answer_prefix == (
        f"{LINE}\n\nThe following are given passages.\n{record()['context']}\n\n{LINE}\n\n"
        "Question: Who built {bridge} 0?\nAnswer:"
    )
    assert s.max_new_tokens == 32
    assert s.references == ("Ann Lee", "Lee")


def test_evidence_is_every_occurrence_of_an_answer(tmp_path: Path) -> None:
    s = read(write(tmp_path, record()))[0]
    assert [s.context[a:b] for a, b in s.evidence] == ["Ann Lee", "Lee", "Lee"]


def test_zip_and_folder_give_the_same_samples(tmp_path: Path) -> None:
    write(tmp_path, *(record(i) for i in range(3)))
    packed = tmp_path / "data.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(tmp_path / "musique.jsonl", "data/musique.jsonl")
    data = make(packed)
    assert data.samples(word_fit(500), 3, 0) == read(tmp_path, n=3)
    assert data.provenance()["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()


def test_variable_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCBENCH_LONGBENCH", str(write(tmp_path, record())))
    assert len(read(None)) == 1


def test_order_of_the_file_and_prefix_property(tmp_path: Path) -> None:
    write(tmp_path, *(record(i) for i in range(4)))
    assert read(tmp_path, n=4)[:2] == read(tmp_path, n=2)


def test_keep_first_and_middle(tmp_path: Path) -> None:
    write(tmp_path, record())
    words = record()["context"].split()
    assert read(tmp_path, tokens=20)[0].context.split() == words[:20]
    assert read(tmp_path, tokens=20, truncation="middle")[0].context.split() == words[:10] + words[-10:]
    assert read(tmp_path, tokens=21, truncation="middle")[0].context.split() == words[:10] + words[-10:]


def test_provenance_reports_what_the_cut_cost(tmp_path: Path) -> None:
    write(tmp_path, record(0), record(1, answers=["w3"]), record(2, answers=["nowhere"]), record(3))
    data = make(tmp_path)
    assert data.provenance()["truncation"] == "keep-first"
    data.samples(word_fit(20), 4, 0)
    facts = data.provenance()
    assert facts["share_truncated"] == 1.0
    assert facts["share_answer_lost"] == 0.5
    assert facts["share_answer_never_there"] == 0.25
    assert len(facts["sha256"]) == 64
    assert facts["sha256_is_the_known_one"] is False
    kept = make(tmp_path, truncation="gold-preserving")
    kept.samples(word_fit(20), 4, 0)
    assert kept.provenance()["share_answer_lost"] == 0.0


def test_a_hash_that_is_asked_for_is_insisted_on(tmp_path: Path) -> None:
    file = write(tmp_path, record()) / "musique.jsonl"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert len(read(tmp_path, sha256=digest.upper())) == 1
    with pytest.raises(UserError, match=rf"musique\.jsonl: SHA-256 is {digest}, not 00"):
        read(tmp_path, sha256="00")


def test_the_papers_shape_takes_short_records_as_they_are(tmp_path: Path) -> None:
    """20 chunks asked for: a long record has 20, a short one its full chunks and a shorter last one."""
    size = 8
    contexts = [
        "Passage 1:\nTown\n" + "The town was founded in the year 1874 by people. " * n for n in (40, 4, 1)
    ]
    write(tmp_path, *(record(i, context=c, answers=["1874"]) for i, c in enumerate(contexts)))
    spec, options = "longbench/musique", {"path": str(tmp_path)}
    made, facts = build_requests(spec, tiny_tokenizer(), 20, size, 3, 0, options)
    lengths = [len(tiny_tokenizer()(c, add_special_tokens=False)["input_ids"]) for c in contexts]
    assert lengths[0] > 20 * size > lengths[1] > lengths[2]
    assert [r.context_tokens for r in made] == [20 * size, *lengths[1:]]
    for r in made:
        assert len(r.chunks) == -(-r.context_tokens // size)
        assert {len(c) for c in r.chunks[:-1]} == {size}
    assert (facts["requests_short"], facts["chunks_min"]) == (2, len(made[2].chunks))
    assert facts["context_tokens_min"] == lengths[2]
    assert facts["source"]["share_shorter_than_asked"] == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="more chunks than the sample has"):
        build_requests(spec, tiny_tokenizer(), 20, size, 3, 0, options | {"short": "refuse"})
    with pytest.raises(UserError, match='short is "keep" or "refuse"'):
        make(tmp_path, short="pad")


def test_min_tokens_leaves_short_records_out(tmp_path: Path) -> None:
    write(tmp_path, record(0, context="Passage 1:\nA\nshort Lee"), record(1))
    assert read(tmp_path, min_tokens=50)[0].id.startswith("musique-2-")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        *(
            (
                json.dumps({k: v for k, v in record().items() if k != name}),
                f"line 2: field '{name}' is missing",
            )
            for name in record()
        ),
        (json.dumps(record(context=7)), "line 2: field 'context' is not a string"),
        (json.dumps(record(answers=[])), "line 2: field 'answers'"),
        (json.dumps(record(answers="Lee")), "line 2: field 'answers' is not a list"),
        (json.dumps(record(answers=[""])), "line 2: field 'answers'"),
        (json.dumps(record(answers=["Lee", 7])), "line 2: field 'answers'"),
        (json.dumps(record(length="90")), "line 2: field 'length' is not a whole number"),
        (json.dumps(record(length=True)), "line 2: field 'length' is not a whole number"),
        (json.dumps(record(input=" ")), "line 2: field 'input' is empty"),
        (json.dumps(record(_id="")), "line 2: field '_id' is empty"),
        (json.dumps(record(dataset="hotpotqa")), "line 2: field 'dataset' is 'hotpotqa', not 'musique'"),
        (json.dumps(record()), "line 2: the _id '00000000000000000000000000000000' is there twice"),
        (json.dumps(record(context="")), "line 2: the context does not start"),
        (json.dumps(MIRRORED), "line 2: the context already holds"),
        ("[" * 100_000, "line 2: not JSON"),
        (json.dumps(record(context=f"{LINE}\nPassage 1:\nA\nLee")), "line 2: the context already holds"),
        (json.dumps(record(context="Passage 2:\nA\nLee")), "line 2: the context does not start"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    write(tmp_path, record(), line)
    with pytest.raises(UserError) as caught:
        read(tmp_path, n=2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_file_member_and_malformed_zip(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file .*musique\.jsonl"):
        read(tmp_path)
    with pytest.raises(UserError, match=r"no file .*gone\.zip"):
        read(tmp_path / "gone.zip")
    bad = tmp_path / "data.zip"
    bad.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(UserError, match="not a readable zip"):
        read(bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("data/other.jsonl", "")
    with pytest.raises(UserError, match=r"no musique\.jsonl inside"):
        read(bad)


def test_zip_with_a_damaged_member(tmp_path: Path) -> None:
    packed = tmp_path / "data.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("data/musique.jsonl", json.dumps(record()))
    raw = bytearray(packed.read_bytes())
    raw[60] ^= 0xFF
    packed.write_bytes(raw)
    with pytest.raises(UserError, match="not a readable zip"):
        read(packed)


def test_too_few_records(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="2 records asked for, 1 there"):
        read(write(tmp_path, record()), n=2)


def test_unknown_truncation() -> None:
    with pytest.raises(UserError, match="keep-first"):
        make(None, truncation="last")


def test_offline_is_one_line_that_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCBENCH_LONGBENCH", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    started = time.monotonic()
    with pytest.raises(UserError, match=r"offline mode.*path=data\.zip") as caught:
        read(None)
    assert time.monotonic() - started < 1
    assert "\n" not in str(caught.value)


def test_the_hub_is_asked_for_the_pinned_revision_of_a_dataset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path, record())
    packed = tmp_path / "data.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(tmp_path / "musique.jsonl", "data/musique.jsonl")
    asked: list[tuple[Any, ...]] = []

    def download(repo: str, name: str, **how: Any) -> str:
        asked.append((repo, name, how["revision"], how["repo_type"], how["local_dir"]))
        return str(packed)

    monkeypatch.delenv("QCBENCH_LONGBENCH", raising=False)
    monkeypatch.setattr("bench.assets.hub.is_offline", lambda: False)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert len(read(None)) == 1
    assert asked == [(longbench.REPOSITORY, "data.zip", longbench.REVISION, "dataset", None)]


@pytest.mark.parametrize("named", ["hotpotqa_e", "hotpotqa"])
def test_longbench_e(tmp_path: Path, named: str) -> None:
    line = json.dumps(record(dataset=named))
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("data/hotpotqa_e.jsonl", line + "\n")
    data = longbench.LongBench(task="hotpotqa_e", path=str(tmp_path / "data.zip"))
    (s,) = data.samples(word_fit(500), 1, 0)
    assert s.instruction.startswith(LINE)
    assert (data.scored_by, data.caveat) == ("f1", "")


def own_file(folder: Path, **changes: Any) -> Path:
    kept = {k: v for k, v in record(**changes).items() if k in ("input", "context", "answers", "_id")}
    (folder / "contracts.jsonl").write_text(json.dumps(kept) + "\n")
    return folder


@pytest.mark.parametrize("file", ["", "contracts.jsonl"])
def test_any_other_file_of_the_schema(tmp_path: Path, file: str) -> None:
    path = str(own_file(tmp_path, context="Clause 1. Ann Lee pays.") / file)
    made, facts = build_requests("longbench/contracts", tiny_tokenizer(), 2, 50, 1, 0, {"path": path})
    assert facts["note"] == "LongBench's schema, not LongBench; generic prompt"
    data = longbench.LongBench(task="contracts", path=path, score="rouge_l", new_tokens=7)
    (s,) = data.samples(word_fit(100), 1, 0)
    assert "based on the given text." in s.instruction
    assert s.max_new_tokens == 7
    assert data.scored_by == "rouge_l"
    assert made[0].references == ("Ann Lee", "Lee")


def test_mistakes_with_other_files_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCBENCH_LONGBENCH", raising=False)
    with pytest.raises(
        UserError, match=r"longbench/contracts: not one of LongBench's tasks .*--longbench FOLDER"
    ):
        longbench.LongBench(task="contracts").samples(word_fit(100), 1, 0)
    with pytest.raises(UserError, match=r"no file .*contracts\.jsonl"):
        longbench.LongBench(task="contracts", path=str(tmp_path)).samples(word_fit(100), 1, 0)
    (tmp_path / "contracts.jsonl").write_text('{"input": "q", "context": "c", "answers": ["a"]}\n')
    with pytest.raises(UserError, match="line 1: field '_id' is missing"):
        longbench.LongBench(task="contracts", path=str(tmp_path)).samples(word_fit(100), 1, 0)
    with pytest.raises(UserError, match="LongBench fixes score"):
        longbench.LongBench(task="musique", score="rouge_l")
    with pytest.raises(UserError, match="score is f1"):
        longbench.LongBench(task="contracts", score="best")
