"""What somebody reads who types the program's name alone, and how the program calls itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nniweb.command_line.completion import command_names
from nniweb.command_line.overview import COMMANDS
from nniweb.command_line.program import main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("asked", [[], ["help"], ["--help"], ["-h"]])
def test_the_name_alone_tells_the_commands_with_a_line_each(asked: list[str],
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    main(["/usr/bin/nniweb", *asked])
    said = capsys.readouterr().out
    assert said.startswith("usage: nniweb COMMAND ...")
    assert "  serve            start the web server and a worker\n" in said
    assert max(len(line) for line in said.splitlines()) < 120


def test_every_command_of_ours_is_named() -> None:
    named = {name for commands in COMMANDS.values() for name in commands}
    assert set(command_names()) <= named


def said_by(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run([sys.executable, "-m", "nniweb", *arguments], cwd=ROOT, timeout=60, check=False,
                          env={**environment, "NNIWEB_DATA": str(folder / "data"), **variables}, capture_output=True,
                          text=True)


def test_started_as_a_module_it_calls_itself_so_and_not_django(tmp_path: Path) -> None:
    assert said_by(tmp_path, "launch").stderr.startswith("usage: python -m nniweb launch ")
    assert "Type 'python -m nniweb help' for usage." in said_by(tmp_path, "no-such").stderr


def test_what_the_encoding_of_the_output_lacks_is_written_as_an_escape(tmp_path: Path) -> None:
    config = tmp_path / "code" / "config.yml"
    config.parent.mkdir()
    config.write_text("{trialCommand: echo π, trialConcurrency: 1, tuner: {name: Random}, searchSpace: "
                      "{x: {_type: choice, _value: [1]}}, trainingService: {platform: local}}", encoding="utf-8")
    done = said_by(tmp_path, "config", "check", str(config), PYTHONIOENCODING="latin-1:strict")
    assert done.returncode == 0, done.stderr
    assert "trialCommand: echo \\u03c0\n" in done.stdout
