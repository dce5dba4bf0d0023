"""The page about starting from Python: its programs are run as one script, on a machine without a server."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nniweb.client import run
from nniweb.storage.data_folder import ServerLock
from tests.end_to_end.running_server import ROOT

PAGE = (ROOT / "docs" / "start-from-python.md").read_text()
PROGRAMS = re.findall(r"^<!-- run -->\n```python\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_of_code_says_that_it_is_run() -> None:
    assert len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)) == len(PROGRAMS) == 2


def test_every_argument_has_its_row() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*)\|", PAGE, re.MULTILINE)
    listed = {name: default.strip().strip("`") for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    own = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()
           if name != "function_or_command"}
    assert set(listed) == set(own)
    assert {name: str(default) for name, default in own.items() if default is not None} == {
        name: listed[name] for name, default in own.items() if default is not None}


@pytest.mark.slow
def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("\n".join(PROGRAMS))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "XDG_", "DJANGO_"))}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, timeout=300, check=False,
                          env={**kept, "PYTHONPATH": str(ROOT), "NNIWEB_DATA": str(tmp_path / "data")})
    assert done.returncode == 0, done.stdout
    assert "DONE  8/8 ended (8 succeeded)" in done.stdout
    assert "'learning_rate'" in done.stdout
    assert " train DONE" in done.stdout
    assert not ServerLock(tmp_path / "data").is_held()
