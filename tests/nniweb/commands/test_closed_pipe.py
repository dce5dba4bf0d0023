"""What reads a command's output may stop reading."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MANAGE, CONFIG = ROOT / "manage.py", ROOT / "examples" / "quadratic" / "config.yml"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--version"], ["help"], ["config", "check", str(CONFIG)], ["launch", "--help"]])
@pytest.mark.parametrize("both", [False, True])
def test_a_reader_that_has_read_enough_is_no_failure(tmp_path: Path, arguments: list[str], both: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads at all
    try:
        ended = subprocess.run(
            [sys.executable, str(MANAGE), *arguments], stdout=writing, stderr=writing if both else subprocess.PIPE,
            env={**os.environ, "NNIWEB_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "nniweb.settings"},
            timeout=60, check=False)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr or b"") == (0, b"")


def test_what_failed_before_stays_a_failure(tmp_path: Path) -> None:
    environment = {**os.environ, "NNIWEB_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "nniweb.settings",
                   "NNIWEB_PORT": "none"}
    environment.pop("PYTHONUNBUFFERED", None)  # the output is written when the command ends
    command = [sys.executable, str(MANAGE), "doctor", "--json"]
    heard = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    assert heard.stdout, "it says what is wrong"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        unheard = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, timeout=60,
                                 check=False)
    finally:
        os.close(writing)
    assert (unheard.returncode, unheard.stderr) == (heard.returncode, heard.stderr) != (0, heard.stderr)
