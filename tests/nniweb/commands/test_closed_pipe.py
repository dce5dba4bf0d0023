"""What reads a command's output may stop reading."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MANAGE, CONFIG = ROOT / "manage.py", ROOT / "examples" / "quadratic" / "config.yml"


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
