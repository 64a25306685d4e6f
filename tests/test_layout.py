"""The repository has a folder named datasets/; the library of that name must still win."""

from __future__ import annotations

import ast
import multiprocessing as mp
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from bench import plugins
from bench.cli import main

ROOT = Path(__file__).resolve().parents[1]
PROBE = "import datasets; assert callable(datasets.load_dataset), datasets.__path__"


def test_hugging_face_wins_from_the_repository_root() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["methods", "datasets"])
def test_plugin_folders_are_not_packages(kind: str) -> None:
    assert not (ROOT / kind / "__init__.py").exists()


def test_only_the_engine_touches_sglang() -> None:
    """And its version stands in one module."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("bench", "methods", "datasets")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^\s*(from|import) sglang\b", path.read_text(), re.M)
    ]
    assert set(found) <= {"bench/engine/_sglang_imports.py"}
    versions = [p.name for p in (ROOT / "bench").rglob("*.py") if '0.5.23"' in p.read_text()]
    assert versions == ["sglang.py"]


def imports(path: Path) -> set[str]:
    """Names right under `bench` that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "bench":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("bench.")}
    return found - {"__version__"}


def test_the_diagram_of_the_architecture_is_the_code() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    lines = text.split("```layers\n")[1].split("```")[0].splitlines()
    height = {name: -number for number, line in enumerate(lines) for name in line.split()}
    wrong, seen = [], set()
    for path in (ROOT / "bench").rglob("*.py"):
        name = path.relative_to(ROOT / "bench").parts[0].removesuffix(".py")
        if name == "__init__":
            continue
        seen.add(name)
        wrong += [f"{path}: {other}" for other in imports(path) if height[other] > height[name]]
    assert not wrong
    assert seen == set(height), "every package and module stands in the diagram, and nothing else"


def select(name: str) -> list[int]:
    from bench.methods import method_of
    from bench.request import Request

    request = Request("r", "d", (1,), ((1,) * 10, (2,) * 10), (3,), (), 1)
    return sorted(method_of(name).method.select(request, None, 4).tolist())  # type: ignore[arg-type]


def test_a_method_crosses_to_a_spawned_process() -> None:
    with mp.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(select, ("epic",)).get(timeout=120) == [0, 1, 10, 11]


def test_listing_methods_and_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in plugins.available("methods"))
    assert main(["datasets"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for task in ("ruler/mq", "longbench/musique", "multihop"):
        assert task in printed
    assert main(["datasets", "multihop"]) == 0
    assert "LongBench-format, not LongBench" in capsys.readouterr().out


def test_the_wheel_runs_from_another_folder(tmp_path: Path) -> None:
    """Built, installed without its dependencies beside this environment's, run from elsewhere."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    here = {p.relative_to(ROOT).as_posix() for p in (ROOT / "bench").rglob("*.py")}
    assert here <= {p.relative_to(unpacked).as_posix() for p in unpacked.rglob("*.py")}
    venv.create(tmp_path / "env", with_pip=False)
    code = f"""
import sys
sys.path[:0] = [{str(unpacked)!r}]
sys.path.append({sysconfig.get_paths()["purelib"]!r})
from bench import plugins
from bench.cli import main
from bench.experiments import known
assert "_builtin" in str(plugins.folder("methods")), plugins.folder("methods")
assert "fig10" in known()
sys.exit(main(["methods"]))
"""
    python = tmp_path / "env" / "bin" / "python"
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "qcfuse" in done.stdout


def test_the_readmes_example_method_runs(tmp_path: Path) -> None:
    """The code block of the README, as a user would save it."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block is not None
    mine = tmp_path / "mine.py"
    mine.write_text(block[1])
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 15
    assert select(str(mine)) == [8, 9, 18, 19]
