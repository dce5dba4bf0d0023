"""What shells are told could come next."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def program(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "nniweb", *arguments], cwd=ROOT, text=True, timeout=60, check=False,
                          capture_output=True, **more)  # type: ignore[call-overload]


def suggestions(typed: str, folder: Path) -> list[str]:
    """What the program answers as argcomplete's shell functions ask: by variables, on standard output of a file."""
    answer = folder / "answer"
    variables = {"_ARGCOMPLETE": "1", "COMP_LINE": typed, "COMP_POINT": str(len(typed)), "_ARGCOMPLETE_IFS": "\n",
                 "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "NNIWEB_DATA": str(folder / "data")}
    done = program(env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return [word.strip() for word in answer.read_text().split("\n")]


@pytest.mark.parametrize(("typed", "there", "not_there"), [
    ("nniweb ", {"launch", "experiments", "serve", "token", "migrate", "completion"}, {"runserver"}),
    pytest.param("nniweb experiments ", {"list", "show", "follow", "trials", "metrics", "delete"}, {"launch"},
                 marks=pytest.mark.slow),
    pytest.param("nniweb nnictl experiment ", {"list", "show", "export"}, {"launch"}, marks=pytest.mark.slow),
    ("nniweb experiments list --", {"--all", "--json", "--server", "--token-file"}, {"--follow"}),
    pytest.param("nniweb serve --", {"--port", "--host", "--nni-port"}, {"--follow"}, marks=pytest.mark.slow),
])
def test_commands_verbs_and_options_are_suggested(typed: str, there: set[str], not_there: set[str],
                                                  tmp_path: Path) -> None:
    found = set(suggestions(typed, tmp_path))
    assert there <= found
    assert not not_there & found


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=pytest.mark.slow),
                                   pytest.param("fish", marks=pytest.mark.slow)])
def test_a_script_for_each_shell_is_printed(shell: str) -> None:
    done = program("completion", shell)
    assert done.returncode == 0
    assert "nniweb" in done.stdout
    if shell == "bash":
        loaded = subprocess.run(["bash", "-c", 'eval "$(cat)"; complete -p nniweb'], input=done.stdout, text=True,
                                capture_output=True, timeout=90, check=True)
        assert "argcomplete" in loaded.stdout


#: What bash does when somebody presses Tab behind "nniweb experiments fol".
PRESS_TAB = """
eval "$(nniweb completion bash)"
COMP_WORDS=(nniweb experiments fol) COMP_CWORD=2 COMP_LINE="nniweb experiments fol" COMP_POINT=22 COMP_TYPE=9
_python_argcomplete nniweb fol experiments
echo "${COMPREPLY[*]}"
"""


def test_bash_really_completes(tmp_path: Path) -> None:
    (tmp_path / "nniweb").write_text(f'#!/bin/sh\nexec {sys.executable} -m nniweb "$@"\n')
    (tmp_path / "nniweb").chmod(0o755)
    done = subprocess.run(["bash", "-c", PRESS_TAB], text=True, capture_output=True, timeout=100, check=False, env={
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)})
    assert done.stdout.strip() == "follow", done.stderr


@pytest.mark.slow
def test_another_shell_is_refused_with_those_there_are() -> None:
    done = program("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr or "bash, zsh, fish" in done.stderr
