"""Public scripts run as they are: those of examples/public-scripts, each by its config file or its one line.

No copy of them is in the repository. PUBLIC_SCRIPTS names a folder to which fetch.py has brought them, each in a
folder by its name; PUBLIC_SCRIPTS_PYTHON an interpreter that has what they import, if this one has not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from nniweb.experiments.config import parse_experiment_config
from tests.end_to_end.running_server import ROOT, RunningServer

FOLDER = ROOT / "examples" / "public-scripts"
SCRIPTS: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "scripts.yml").read_text())
#: How many trials a test runs of each.
TRIALS = 2


@pytest.fixture
def fetch() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch", FOLDER / "fetch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def running_server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path / "data")
    yield server.start()
    server.close()


def test_each_script_has_its_source_and_its_config() -> None:
    assert len(SCRIPTS) >= 12
    assert {path.stem for path in (FOLDER / "configs").iterdir()} == set(SCRIPTS)
    for name, about in SCRIPTS.items():
        assert re.fullmatch(r"[0-9a-f]{40}|\S+==\S+", about.get("commit") or about["package"]), name
        assert re.fullmatch(r"[0-9a-f]{64}", about["sha256"])
        assert about["kind"]
        assert about["licence"]


@pytest.mark.parametrize("name", [name for name in SCRIPTS if SCRIPTS[name]["launch"].startswith("nniweb launch")])
def test_the_config_is_right(name: str, tmp_path: Path) -> None:
    settings = parse_experiment_config((FOLDER / "configs" / f"{name}.yml").read_text(), tmp_path).settings
    script = Path(next(iter(SCRIPTS[name]["files"]))).name
    assert script in settings.trial_command


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / "your-script.md").read_text()
    for name, about in SCRIPTS.items():
        source = about.get("repository") or about["package"].partition("==")[0]
        line = f"| [{name}](../examples/public-scripts/configs/{name}.yml) | {source} | {about['kind']} |"
        assert line in page, line


def test_a_script_is_fetched_as_its_repository_has_it_and_no_other_content_is_taken(
        fetch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "owner" / "name"
    source.mkdir(parents=True)
    (source / "train.py").write_text("print(1)\n")
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    about = {"repository": "owner/name", "commit": commit, "files": {"a.py": "train.py"},
             "sha256": hashlib.sha256(b"print(1)\n").hexdigest()}
    monkeypatch.setitem(fetch.SCRIPTS, "mine", about)
    assert fetch.fetched("mine", f"{tmp_path}/") == {"a.py": b"print(1)\n"}
    about["sha256"] = "0" * 64
    with pytest.raises(ValueError, match="has another content"):
        fetch.fetched("mine", f"{tmp_path}/")


def copy_of(name: str, folder: Path) -> Path:
    """The script in a folder of its own, unedited, with its config beside it. Skips where it was not fetched."""
    kept = os.environ.get("PUBLIC_SCRIPTS")
    if kept is None or not (Path(kept) / name).is_dir():
        pytest.skip(f"{name} was not fetched: set PUBLIC_SCRIPTS, see examples/public-scripts/fetch.py")
    shutil.copytree(Path(kept) / name, folder / name)
    script = next(iter(SCRIPTS[name]["files"]))
    digest = hashlib.sha256((folder / name / script).read_bytes()).hexdigest()
    assert digest == SCRIPTS[name]["sha256"], "it is unedited"
    config = (FOLDER / "configs" / f"{name}.yml").read_text()
    (folder / name / "config.yml").write_text(re.sub(r"(?m)^maxTrialNumber: .*$", f"maxTrialNumber: {TRIALS}", config))
    return folder / name


def python_of(name: str) -> str:
    """An interpreter with what the script imports. Skips where it has not."""
    python = os.environ.get("PUBLIC_SCRIPTS_PYTHON", sys.executable)
    for package in SCRIPTS[name]["packages"]:
        wanted = re.split("[=<>]", package)[0]
        if subprocess.run([python, "-c", f"import importlib.metadata as it; it.version({wanted!r})"],
                          capture_output=True, check=False).returncode:
            pytest.skip(f"{wanted} is not installed, which {name} imports")
    return python


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs_as_it_is_and_has_results(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    python, folder = python_of(name), copy_of(name, tmp_path / "scripts")
    running_server = request.getfixturevalue("running_server")  # where there is something to run
    (tmp_path / "bin").mkdir()
    # what a person has after pip install: a command, and the interpreter of the scripts first on PATH
    (tmp_path / "bin" / "nniweb").write_text(f"#!/bin/sh\nexec {sys.executable} -m nniweb \"$@\"\n")
    (tmp_path / "bin" / "nniweb").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NNIWEB_", "DJANGO_", "NNI_"))}
    launch = SCRIPTS[name]["launch"].replace("nniweb launch config.yml", "nniweb launch config.yml --follow")
    launch = re.sub(r"--trials \d+", f"--trials {TRIALS}", launch)
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(python).parent), kept["PATH"]])
    done = subprocess.run(
        shlex.split(launch), cwd=folder, text=True, capture_output=True, timeout=1000, check=False, env={
            **kept, "PYTHONPATH": str(ROOT), "NNIWEB_SERVER": running_server.url, "NNIWEB_TOKEN": running_server.token,
            "OMP_NUM_THREADS": "1", "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    [experiment] = running_server.get_all("experiments/")
    running_server.wait_until(lambda: running_server.get(f"experiments/{experiment['id']}/")["status"] == "DONE", 300)
    trials = running_server.get_all(f"experiments/{experiment['id']}/trials/")
    assert len(trials) >= TRIALS
    for trial in trials:
        assert trial["status"] in ("SUCCEEDED", "EARLY_STOPPED"), trial
        assert isinstance(trial["final_number"], float | int), trial
