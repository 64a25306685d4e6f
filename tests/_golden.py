"""Full prompts for fixed seeds, as files to read: `tests/golden/`.

    python -m tests._golden

writes them anew. Do so only where a change of prompts is meant, and read the difference (`git diff`)
byte by byte: every one changes all scores. `tests/test_golden.py` compares.

The haystack, the records and the paragraphs are written here, the tokenizer has a token a byte: what a
file depends on besides is the generators, the templates and, for RULER's keys, the pinned `wonderwords`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import plugins
from bench.data.requests import build_requests
from bench.request import Request
from tests._tokenizer import byte_tokenizer

FOLDER = Path(__file__).parent / "golden"
ANSWERS = "answers.json"
ESSAY = " ".join(
    f"On day {i} we walked to the {place}. Mr. Gray, who knew the way, said that it was {how}. Was he right?"
    for i, (place, how) in enumerate(
        (place, how)
        for how in ("near", "farther than it looked", "not worth the rain", "open until dusk")
        for place in ("mill", "old bridge", "harbour", "school on the hill", "market")
    )
)
TASKS = ("single", "mq", "mv", "vt")
SEEDS = (1, 42)


def longbench_record(task: str) -> dict[str, Any]:
    """A record with every field of LongBench's."""
    return {
        "input": "Who built the bridge {at} Arden?",
        "context": "Passage 1:\nArden\nArden is a town on the Teme.\n\nHistory\n"
        "Its bridge was built by Ann Lee.\nPassage 2:\nAnn Lee\nAnn Lee (1801–1870) built bridges & mills.",
        "answers": ["Ann Lee", "Lee"],
        "length": 31,
        "dataset": task,
        "language": "en",
        "all_classes": None,
        "_id": "0123456789abcdef",
    }


def squad_file() -> dict[str, Any]:
    """Three short paragraphs in SQuAD's format."""
    told = [
        ("The_mill", "The mill of Arden was built in 1874. It stands on the Teme.", "1874", "When?"),
        (
            "Cloth",
            "Cloth from Borley was sold as far as the coast by Jane Orme.",
            "Jane Orme",
            "Who sold it?",
        ),
        (
            "Ferry",
            "A ferry crossed the Avon at Colne until the bridge was opened.",
            "the Avon",
            "Which river?",
        ),
    ]
    return {
        "version": "1.1",
        "data": [
            {
                "title": title,
                "paragraphs": [
                    {
                        "context": text,
                        "qas": [
                            {
                                "id": f"q{i}",
                                "question": question,
                                "answers": [{"text": answer, "answer_start": text.index(answer)}],
                            }
                        ],
                    }
                ],
            }
            for i, (title, text, answer, question) in enumerate(told)
        ],
    }


@contextmanager
def own_haystack() -> Iterator[None]:
    """RULER on `ESSAY` instead of the essays, which are not ours to publish."""
    ruler = plugins.load("datasets", "ruler")
    kept = ruler.essays
    ruler.essays = lambda: (ESSAY, "0" * 64)
    try:
        yield
    finally:
        ruler.essays = kept


def one(spec: str, chunks: int, chunk_tokens: int, seed: int, **options: Any) -> Request:
    """The first request of a seed."""
    return build_requests(spec, byte_tokenizer(), chunks, chunk_tokens, 1, seed, options)[0][0]


def requests() -> dict[str, Request]:
    """Every golden request, by the name of its file."""
    made: dict[str, Request] = {}
    with own_haystack():
        for task in TASKS:
            for seed in SEEDS:
                options = {"demo_tokens": 1400} if task == "vt" else {}
                made[f"ruler-{task}-{seed}"] = one(f"ruler/{task}", 4, 400, seed, **options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for task in ("musique", "2wikimqa", "hotpotqa"):
            record = json.dumps(longbench_record(task)) + "\n"
            (folder / f"{task}.jsonl").write_text(record, encoding="utf-8")
            made[f"longbench-{task}"] = one(f"longbench/{task}", 4, 400, 0, path=name)
        (folder / "squad.json").write_text(json.dumps(squad_file()), encoding="utf-8")
        made["spans-squad"] = one("spans/squad", 2, 100, 1, path=name)
    made["multihop"] = one("multihop", 4, 250, 1)
    return made


def prompt(request: Request) -> str:
    """The exact text that full prefill runs, special tokens included."""
    text = byte_tokenizer().decode(request.ids)
    assert isinstance(text, str)
    return text


def answers(request: Request) -> dict[str, Any]:
    """What a request holds besides its prompt."""
    return {
        "id": request.id,
        "references": list(request.references),
        "max_new_tokens": request.max_new_tokens,
        "chunks": [len(chunk) for chunk in request.chunks],
        "evidence": _texts(request, request.evidence),
        "needles": _texts(request, request.needles),
        "sha256": request.sha256,
    }


def _texts(request: Request, positions: tuple[int, ...]) -> list[str]:
    """Context positions as text, one string a run of neighbours."""
    context = [t for chunk in request.chunks for t in chunk]
    runs: list[list[int]] = []
    for t in positions:
        if runs and runs[-1][-1] == t - 1:
            runs[-1].append(t)
        else:
            runs.append([t])
    return [byte_tokenizer().decode([context[t] for t in run]) for run in runs]


def write() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    made = requests()
    for name, request in made.items():
        (FOLDER / f"{name}.txt").write_bytes(prompt(request).encode())
    told = {name: answers(request) for name, request in made.items()}
    (FOLDER / ANSWERS).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
