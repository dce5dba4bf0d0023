"""From nothing to a finished search: ``pip install`` of the wheel, and ``run`` in a script and in a notebook."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nniweb.storage.data_folder import ServerLock
from tests.end_to_end.running_server import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGE = (ROOT / "docs" / "start-from-python.md").read_text()
PROGRAMS = re.findall(r"^<!-- run -->\n```python\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
#: Executes a notebook without a browser, as nbconvert does, and writes it with its outputs.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""
#: A cell is interrupted while it follows, and the next cells go on with what it returned.
INTERRUPTED = """
import _thread, threading
threading.Timer(5, _thread.interrupt_main).start()
slow = run("sleep 600", {"x": {"_type": "choice", "_value": [1]}}, trials=1)
"""
STOPPED = "print('status', slow.refresh().status)\nslow.stop().wait(120)\nprint(slow.status)"
#: A script of NNI's, with the one line more.
OF_NNI = """
import socket
import nniweb.nni_experiment
from nni.experiment import Experiment

experiment = Experiment("local")
experiment.config.trial_command = "python3 trial.py"
experiment.config.trial_code_directory = "."
experiment.config.search_space = {"x": {"_type": "uniform", "_value": [0, 1]}}
experiment.config.tuner.name = "Random"
experiment.config.max_trial_number = 3
experiment.config.trial_concurrency = 2
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
if __name__ == "__main__":
    print("done", experiment.run(port), len(experiment.export_data()))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The Python of an environment into which pip has installed the wheel, and what runs notebooks."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=300)
    done = subprocess.run([environment / "bin" / "pip", "install", "-q", str(wheel), "nbclient", "ipykernel"],
                          capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        pytest.skip("the wheel's packages and nbclient cannot be installed: "
                    f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return environment / "bin" / "python"


def run_python(python: Path, folder: Path, *arguments: str) -> str:
    """In a shell that knows neither this checkout nor the environment; returns what it printed."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    done = subprocess.run([python, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False, env={**kept, "HOME": str(home)})
    assert done.returncode == 0, done.stdout
    return done.stdout


def data_folder(folder: Path) -> Path:
    """Where the installed program keeps its data by itself."""
    return folder / "home" / ".local" / "share" / "nniweb"


def test_a_script_goes_from_nothing_to_a_finished_search(python: Path, tmp_path: Path) -> None:
    (tmp_path / "search.py").write_text("\n".join(PROGRAMS))
    said = run_python(python, tmp_path, "search.py")
    assert "A server was started at http://127.0.0.1:" in said
    assert "link that this command prints: nniweb sign-in-link" in said
    assert "DONE  8/8 ended (8 succeeded)" in said
    assert "{'learning_rate':" in said
    assert not ServerLock(data_folder(tmp_path)).is_held()


def test_a_notebook_shows_a_table_that_changes_and_survives_an_interrupt(python: Path, tmp_path: Path) -> None:
    cells = [*PROGRAMS, INTERRUPTED, STOPPED]
    notebook = tmp_path / "search.ipynb"
    write = ("import json, sys, nbformat.v4 as v4, nbformat\n"
             "cells = [v4.new_code_cell(text) for text in json.load(sys.stdin)]\n"
             "nbformat.write(v4.new_notebook(cells=cells), sys.argv[1])")
    subprocess.run([python, "-c", write, str(notebook)], input=json.dumps(cells), text=True, check=True, timeout=60)
    run_python(python, tmp_path, "-c", EXECUTE, str(notebook))
    first, listed, interrupted, stopped = [cell["outputs"] for cell in json.loads(notebook.read_text())["cells"]]

    [table] = [output["data"]["text/html"] for output in first if output["output_type"] == "display_data"]
    assert "8/8 ended (8 succeeded)" in "".join(table)  # the last state, in place of those before
    assert "".join(table).count("<td>SUCCEEDED</td>") == 8
    assert "{'learning_rate':" in _text(first)
    assert " train DONE" in _text(listed)
    assert "The experiment continues: http://127.0.0.1:" in _text(interrupted)
    assert re.fullmatch(r"status (RUNNING|NO_MORE_TRIAL)\nSTOPPED\n", _text(stopped))
    assert not ServerLock(data_folder(tmp_path)).is_held()


def test_a_script_of_nni_needs_one_more_line_and_no_server(python: Path, tmp_path: Path) -> None:
    done = subprocess.run([python, "-m", "pip", "install", "-q", "nni==3.0"], capture_output=True, text=True,
                          timeout=900, check=False)
    if done.returncode:
        pytest.skip("the official nni 3.0 cannot be installed: "
                    f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    (tmp_path / "trial.py").write_text("import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n")
    (tmp_path / "search.py").write_text(OF_NNI)
    said = run_python(python, tmp_path, "search.py")
    assert "done True 3" in said
    assert not ServerLock(data_folder(tmp_path)).is_held()


def _text(outputs: list[dict[str, Any]]) -> str:
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream"
                   and output["name"] == "stdout")
