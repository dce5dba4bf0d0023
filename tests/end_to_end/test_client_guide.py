"""The guide of the client: its blocks are run in the order of the page, against a server that runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nniweb.client import following
from nniweb.client.arguments import INTERRUPTED
from tests.end_to_end.running_server import ROOT, RunningServer

PAGE = (ROOT / "docs" / "client.md").read_text()
#: What stands above a block, its language, its text.
BLOCKS = re.findall(r"^<!-- ([^\n]+) -->\n```(\w+)\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "https://nni.example.org"


def of(language: str, server: RunningServer) -> str:
    """All blocks of a language as one program, with the address of a server that is there."""
    return "\n".join(text for _, found, text in BLOCKS if found == language).replace(ADDRESS, server.url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The quadratic example with few trials, each of which leaves a file, and a program ``nniweb``."""
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "examples" / "quadratic", folder)
    config = (folder / "config.yml").read_text().replace("maxTrialNumber: 200", "maxTrialNumber: 3")
    config = config.replace("python3 trial.py", "python3 trial.py && echo kept > kept.txt")
    (folder / "config.yml").write_text(f'{config}keepFiles: ["*.txt"]\n')
    program = folder / "bin" / "nniweb"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nniweb "$@"\n')
    program.chmod(0o755)
    return folder


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "XDG_", "DJANGO_"))}
    return {**kept, "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture
def server(running_server: RunningServer) -> RunningServer:
    return running_server


def test_every_block_of_code_says_that_it_is_run() -> None:
    assert len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)) == len(BLOCKS) > 5
    assert {above for above, _, _ in BLOCKS} == {"run"}


def test_the_page_has_the_exit_statuses_of_the_program() -> None:
    listed = {int(number): meaning for number, meaning in re.findall(r"^\| (\d+) \| ([^|]*)", PAGE, re.MULTILINE)}
    assert set(listed) == {*following.EXIT_STATUS.values(), following.NO_WORKER, following.UNREACHABLE, INTERRUPTED}
    assert "DONE" in listed[following.EXIT_STATUS["DONE"]]
    assert "ERROR" in listed[following.EXIT_STATUS["ERROR"]]


@pytest.mark.slow
def test_the_commands_and_the_programs_of_the_page_run(server: RunningServer, folder: Path) -> None:
    commands = subprocess.run(["bash", "-euo", "pipefail", "-c", of("sh", server)], cwd=folder, input=server.token,
                              env=environment(folder), text=True, capture_output=True, timeout=110, check=False)
    assert commands.returncode == 0, commands.stdout + commands.stderr
    assert "DONE  3/3 ended (3 succeeded)" in commands.stdout
    assert commands.stdout.rstrip().endswith("was deleted.")
    assert len((folder / "trials.csv").read_text().splitlines()) == 4
    assert not (folder / "kept.txt").exists()  # trials ran in a folder of theirs

    program = subprocess.run([sys.executable, "-c", of("python", server)], cwd=folder, env=environment(folder),
                             text=True, capture_output=True, timeout=110, check=False)
    assert program.returncode == 0, program.stdout + program.stderr
    assert "DONE succeeded Finished: 3 of 3 trials" in program.stdout
    assert "[3 rows x" in program.stdout  # of a table that is too wide for the terminal
    assert "step 10: height" in program.stdout  # of the trial's output
    assert "kept.txt 5 kept.txt" in program.stdout
    assert (folder / "kept.txt").read_text() == "kept\n"
    assert "trialConcurrency must be greater than 0" in program.stdout


@pytest.mark.slow
def test_an_experiment_that_is_stopped_while_it_is_followed_ends_with_3(server: RunningServer, folder: Path) -> None:
    config = folder / "config.yml"
    config.write_text(config.read_text().replace("python3 trial.py", "sleep 600; python3 trial.py"))
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(server.token)
    following = subprocess.Popen([folder / "bin" / "nniweb", "launch", str(config), "--follow", "--server", server.url,
                                  "--token-file", str(token)], env=environment(folder), text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        [found] = server.wait_until(lambda: server.get("experiments/")["results"], what="it is launched")
        server.post(f"experiments/{found['id']}/actions/stop/")
        said, _ = following.communicate(timeout=90)
    finally:
        following.kill()
        following.wait()
    assert following.returncode == 3, said
    assert "STOPPED" in said
