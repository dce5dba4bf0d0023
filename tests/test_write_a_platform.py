"""The guide for platforms: its blocks of code are the example's files, or are run, in the order of the page."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import trainingservice
from nniweb.experiments.config import parse_experiment_config
from trainingservice import platforms
from trainingservice.base import ServiceContext
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, ResumedJob, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus as Status

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "write-a-platform.md").read_text()
EXAMPLE = ROOT / "examples" / "my_platform"
#: What stands above a block, its language, its text.
BLOCKS = re.findall(r"^<!-- ([^\n]+) -->\n```(\w+)\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
#: Cases of the suite that this test has run; all of them run where the package is installed elsewhere.
SOME_CASES = "runs_to_its_end or slots"


def blocks(kind: str) -> list[str]:
    return [text for above, _, text in BLOCKS if above == kind]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package as somebody writes it who follows the page."""
    folder = tmp_path / "my_platform"
    for name in dict.fromkeys(above for above, _, _ in BLOCKS if above.startswith("file ")):
        path = folder / name.removeprefix("file ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(blocks(name)) + "\n")
    (folder / "my_platform" / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_platform"]:
        del sys.modules[name]


def python(package: Path, *arguments: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=110,
                          env={**{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
                               "PYTHONPATH": f"{ROOT}:{package}"})
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_every_block_of_code_says_what_is_done_with_it() -> None:
    fenced = len(re.findall(r"^```\w+$", PAGE, re.MULTILINE))
    assert fenced == len(BLOCKS) >= 15
    assert not re.search(r"\n\n {4}\S", re.sub(r"^```\w+\n.*?\n```$", "", PAGE, flags=re.MULTILINE | re.DOTALL))
    known = {"config", "register", "run", "takes jobs over", "line of BUILT_IN"}
    assert {above for above, _, _ in BLOCKS if not above.startswith("file ")} == known


def test_who_follows_the_page_has_the_examples_files(package: Path) -> None:
    written = sorted(path.relative_to(package) for path in package.rglob("*") if path.is_file())
    assert Path("my_platform/service.py") in written
    for path in written:
        if path.name != "__init__.py":
            assert (package / path).read_text() == (EXAMPLE / path).read_text(), path


@pytest.mark.slow
def test_the_platform_of_the_page_passes_cases_of_the_suite(package: Path, tmp_path: Path) -> None:
    said = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "-c", os.devnull,
                  "--rootdir", str(package), str(package / "tests"), "-k", SOME_CASES, folder=tmp_path)
    assert "2 passed" in said


@pytest.mark.slow
def test_the_programs_of_the_page_run(package: Path, tmp_path: Path) -> None:
    tell, register, receive = [text for above, language, text in BLOCKS if (above, language) == ("run", "python")]
    assert "exit_code=3" in python(package, "-c", tell, folder=tmp_path)
    assert "'default': 4" in python(package, "-c", register, folder=tmp_path)
    said = python(package, "-c", receive, folder=tmp_path)
    assert '"value": "9"' in said
    assert said.endswith("SUCCEEDED\n")


def detail(name: str) -> TrialJobDetail:
    form = JobApplicationForm(name, name, "experiment", 0, HyperParameters("{}"), "true", KeeperAccess((), "token"))
    return TrialJobDetail(name, Status.WAITING, form, 1.0)


def test_the_shortest_platform_takes_over_the_jobs_whose_folders_are_there(package: Path, tmp_path: Path) -> None:
    small = importlib.import_module("my_platform.small_service")
    exec("\n".join(blocks("takes jobs over")), vars(small), taken_over := {})
    service = type("Returning", (small.SmallTrainingService,), taken_over)(None, ServiceContext("small", tmp_path))
    (tmp_path / "found").mkdir()
    (tmp_path / "begun").mkdir()
    service.resume_trial_jobs([ResumedJob(detail("found")), ResumedJob(detail("gone")),
                               ResumedJob(detail("begun"), submitted=False)])
    assert [(job.id, job.status) for job in service.list_trial_jobs()] == [("found", Status.RUNNING)]


def test_the_config_of_the_page_is_valid(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = blocks("register")
    [extra] = re.findall(r"NNIWEB_EXTRA_PLATFORMS=(\S+)", command)
    name, _, target = extra.partition("=")
    monkeypatch.setattr(platforms, "_registered", {name: target, "mine": "my_platform.service:MyTrainingService"})
    (tmp_path / "trial.py").touch()
    sections = [parse_experiment_config(text, tmp_path).settings.training_service for text in blocks("config")]
    assert [section and section.document() for section in sections] == [
        {"platform": "small"}, {"platform": "mine", "folder": "/srv/trials", "slots": 4, "nice": 5}]


def test_the_same_files_work_in_this_repository(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree" / "mine"
    tree.mkdir(parents=True)
    for name in ("__init__.py", "config.py", "service.py"):
        text = (package / "my_platform" / name).read_text()
        (tree / name).write_text(text.replace("from my_platform.", "from trainingservice.mine."))
    monkeypatch.setattr(trainingservice, "__path__", [*trainingservice.__path__, str(tree.parent)])
    [line] = blocks("line of BUILT_IN")
    [(name, target)] = eval(f"{{{line}}}").items()  # noqa: S307  a line of a dictionary
    monkeypatch.setitem(platforms.BUILT_IN, name, target)
    monkeypatch.setattr(platforms, "_loaded", {})
    try:
        assert platforms.load_platform("mine").__module__ == "trainingservice.mine.service"
        assert "mine" in platforms.platform_names()
    finally:
        for module in [name for name in sys.modules if name.startswith("trainingservice.mine")]:
            del sys.modules[module]
