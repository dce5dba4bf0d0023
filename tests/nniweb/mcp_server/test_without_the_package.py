"""Where the SDK is not installed, a sentence says what to install; where the server is off, nothing of it is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ABSENT = "import sys\nsys.modules['mcp'] = None\n"


def python(program: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=60,
                          check=False, env={**kept, "NNIWEB_DATA": str(folder), **variables})


def test_switching_it_on_says_what_to_install(tmp_path: Path) -> None:
    done = python(f"{ABSENT}import nniweb.settings", tmp_path, NNIWEB_MCP="1")
    assert ("NNIWEB_MCP is set, which needs additional packages. Install them: python -m pip install 'nniweb[mcp]' (in "
            "a checkout: -r requirements/mcp.txt)") in done.stderr
    assert python(f"{ABSENT}import nniweb.settings", tmp_path).returncode == 0


@pytest.mark.slow
def test_the_program_says_what_to_install_and_needs_no_django(tmp_path: Path) -> None:
    program = "sys.modules['django'] = None\nfrom nniweb.command_line.program import main\nmain(['nniweb', 'mcp'])"
    given = {"NNIWEB_SERVER": "http://127.0.0.1:9", "NNIWEB_TOKEN": "nniweb_x"}
    done = python(f"{ABSENT}{program}", tmp_path, **given)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'nniweb[mcp]'" in done.stderr
    served = subprocess.run([sys.executable, "-c", f"import sys\n{program}"], cwd=ROOT, text=True, capture_output=True,
                            timeout=60, check=False, stdin=subprocess.DEVNULL, env={**os.environ, **given})
    assert (served.returncode, served.stdout, served.stderr) == (0, "", "")
