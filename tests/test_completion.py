"""The completion script knows every command."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from bench.cli import main


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    lines = script.splitlines()
    function = next(line.split("()")[0] for line in lines if line.startswith("_shtab_qcbench()"))
    typed = f'COMP_WORDS=(qcbench "com"); COMP_CWORD=1; {function}; echo "${{COMPREPLY[@]}}"'
    asked = f"{script}\n{typed}\n"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"compare", "completion"}


def test_an_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert "fish" in capsys.readouterr().err
