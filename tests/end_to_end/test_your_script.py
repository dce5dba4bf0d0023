"""The page of scripts that do not import nni: its examples are run, each by an experiment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nniweb.experiments.config import parse_experiment_config
from tests.end_to_end.running_server import ROOT, RunningServer
from tests.end_to_end.test_client_guide import environment
from tests.fakes.real_mlflow import mlflow_python
from trialkeeper.command_template import fill
from trialkeeper.trial_parameters import as_overrides, flat, parameter_variables

PAGE = (ROOT / "docs" / "your-script.md").read_text()
#: The name of a file, its language, its text.
BLOCKS = re.findall(r"^<!-- run: ([^\n]+) -->\n```(\w+)\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


def examples() -> list[dict[str, str]]:
    """The files of each example; the last one is its config."""
    found: list[dict[str, str]] = [{}]
    for name, _, text in BLOCKS:
        found[-1][name] = text + "\n"
        if name == "config.yml":
            found.append({})
    assert found.pop() == {}
    return found


def test_every_script_of_the_page_is_run() -> None:
    assert len(re.findall(r"^```python$", PAGE, re.MULTILINE)) == sum(language == "python" for _, language, _ in BLOCKS)
    assert len(examples()) >= 2


def test_the_table_of_parameters_says_what_a_script_gets() -> None:
    table = PAGE.partition("| your script takes | write | it gets |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([^`]+)`", line) for line in table.splitlines()]
    parameters = {"lr": 0.01, "layers": 3}
    assert len(rows) == 5
    for command, gets in rows[:3]:
        assert fill(command, parameters) == f"python3 train.py {gets}"
    assert rows[3][1:] == [f"{name}={value}" for name, value in parameter_variables(parameters).items()]
    assert json.loads(rows[4][1]) == parameters
    [nested] = re.findall(r'For `(\{"model": [^`]+)`', PAGE)
    found = flat(json.loads(nested))
    assert found == {"model": "forest", "model.trees": 100}
    assert " ".join(as_overrides(found)) in PAGE
    assert all(f"`{name}`" in PAGE for name in (*found, *parameter_variables(found)))


@pytest.mark.parametrize("text", re.findall(r"^```yaml\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL))
def test_every_config_of_the_page_is_right(text: str, tmp_path: Path) -> None:
    if "trialCommand" not in text:
        text += ("\ntrialCommand: x\ntrialConcurrency: 1\ntrainingService: {platform: local}\n"
                 "searchSpace: {lr: {_type: uniform, _value: [0, 1]}}")
    assert parse_experiment_config(text, tmp_path).settings.metrics


@pytest.mark.slow
def test_the_examples_of_the_page_have_results(running_server: RunningServer, tmp_path: Path) -> None:
    for files in examples():
        if not any("import mlflow" in text for text in files.values()):
            check(files, running_server, tmp_path, Path(sys.executable))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_example_of_mlflow_has_results(running_server: RunningServer, tmp_path: Path) -> None:
    [files] = [files for files in examples() if any("import mlflow" in text for text in files.values())]
    trial = check(files, running_server, tmp_path, mlflow_python())
    names = [file["name"] for file in running_server.get(f"trials/{trial}/files/")["results"]]
    assert any(name.endswith("artifacts/model/weights.txt") for name in names)


def check(files: dict[str, str], server: RunningServer, folder: Path, python: Path) -> str:
    """Launch an example, see that its trials have results, and return the id of one. ``python``: of the trials."""
    work = folder / f"example-{len(list(folder.iterdir()))}"
    work.mkdir()
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in files.items():
        (work / name).write_text(text)
    variables = {**environment(folder), "NNIWEB_SERVER": server.url, "NNIWEB_TOKEN": server.token,
                 "PATH": f"{python.parent}:{os.environ['PATH']}"}
    client = [sys.executable, "-m", "nniweb"]
    launched = subprocess.run([*client, "launch", "config.yml", "--follow"], cwd=work, env=variables, text=True,
                              capture_output=True, timeout=110, check=False)
    assert launched.returncode == 0, launched.stdout + launched.stderr
    listed = subprocess.run([*client, "experiments", "list", "--json"], env=variables, capture_output=True, timeout=60,
                            check=True)
    trials = server.get(f"experiments/{json.loads(listed.stdout)[0]['id']}/trials/")["results"]
    assert [trial["status"] for trial in trials] == ["SUCCEEDED", "SUCCEEDED"]
    assert all(isinstance(trial["final_number"], float) for trial in trials), (files, trials)
    return str(trials[0]["id"])
