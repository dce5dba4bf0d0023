"""The example of docs/platforms/slurm.md: what the page shows of a job is what sbatch is given for the page's file."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nniweb.experiments.config import parse_experiment_config
from trainingservice.base import ServiceContext
from trainingservice.slurm.commands import SlurmCommands
from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.service import SlurmTrainingService
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

PAGE = (Path(__file__).parents[3] / "docs" / "platforms" / "slurm.md").read_text()
SECTION = PAGE.partition("\n## A complete example\n")[2].partition("\n## ")[0]


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)[number]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str]:
    """Arguments and script that sbatch is given for the page's experiment, in the names that the page uses."""
    (tmp_path / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    settings = parse_experiment_config(block("yaml"), tmp_path).settings
    assert settings.training_service is not None
    cluster, options = settings.training_service.settings, settings.training_service.options
    assert isinstance(cluster, SlurmClusterSettings)
    assert isinstance(options, SlurmTrialOptions)
    folder = cluster.working_folder
    (tmp_path / "shared").mkdir()
    given: list[tuple[list[str], str]] = []

    def submit(slurm: SlurmCommands, arguments: list[str], script: str) -> str:
        given.append((arguments, script))
        return "4711"

    monkeypatch.setattr(SlurmCommands, "submit", submit)
    here = cluster.model_copy(update={"working_folder": str(tmp_path / "shared"), "login_node": None})
    service = SlurmTrainingService(here, ServiceContext("c1", tmp_path / "state", installation="k3vq8zn2"))
    form = JobApplicationForm(
        job_name="t7f2m9qk4xwd", trial_job_id="t7f2m9qk4xwd", experiment_id="pmtlfy42ghbz", sequence_id=0,
        hyper_parameters=HyperParameters("{}"), command=settings.trial_command, options=options,
        gpu_number=settings.trial_gpu_number, keeper=KeeperAccess(("https://nni.example.org",), "very secret"))
    service.start_job(TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 0.0))
    service.close()
    (arguments, script), = given

    def as_shown(text: str) -> str:
        return re.sub(r"keeper-[0-9a-f]{12,}", "keeper-HASH", text.replace(str(tmp_path / "shared"), folder))

    return [as_shown(argument) for argument in arguments], as_shown(script)


def test_the_options_are_those_of_the_page(submitted: tuple[list[str], str]) -> None:
    assert shlex.split(block("sh").replace("\\\n", "")) == ["sbatch", "--parsable", *submitted[0]]


def test_the_batch_script_is_that_of_the_page(submitted: tuple[list[str], str]) -> None:
    assert submitted[1] == block("sh", 1)
