"""What a real OAR makes of the commands of the example in docs/platforms/command.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.schedulers.oar import Oar
from tests.trainingservice.command.jobs_of_a_scheduler import JobsOfAScheduler
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def oar() -> Iterator[Oar]:
    with Oar(cores=8, gpus=2) as oar:
        yield oar


@pytest.fixture
def jobs(oar: Oar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsOfAScheduler]:
    monkeypatch.setenv("PATH", f"{oar.programs}:{os.environ['PATH']}")
    jobs = JobsOfAScheduler("OAR", tmp_path, oar.wait)
    yield jobs
    for job_id in jobs.ids:
        oar.command("oardel", job_id, check=False)
    oar.wait("its jobs have ended", lambda: not oar.job_names())


def resources_of(oar: Oar, job_id: str) -> list[str]:
    """Ids of what the job was given: one for each core."""
    told = oar.command("oarstat", "-f", "-j", job_id)
    return re.findall(r"assigned_resources = (\S+)", told)[0].split("+")


def test_the_cpus_of_a_trial_are_shared_out_among_its_gpus(jobs: JobsOfAScheduler, oar: Oar) -> None:
    job_id = jobs.submit("t0123456789a", GPUS="2", CPUS="3")
    jobs.wait(job_id, TrialJobStatus.RUNNING)
    assert len(resources_of(oar, job_id)) == 4, "two cores for each of the two GPUs, which are no fewer than three"


def test_a_job_waits_where_all_cores_are_in_use_and_runs_when_they_are_free(jobs: JobsOfAScheduler) -> None:
    first = jobs.submit("t0123456789a", CPUS="8")
    jobs.wait(first, TrialJobStatus.RUNNING)
    second = jobs.submit("t0123456789b", CPUS="1")
    assert jobs.status(second) is TrialJobStatus.WAITING
    assert jobs.scheduler.listed([second]).seen[second].message, "OAR says what it makes of the job"
    assert jobs.scheduler.find("t0123456789b") == [second]
    jobs.scheduler.cancel(first)
    jobs.wait(first, None)
    jobs.wait(second, TrialJobStatus.RUNNING)


def test_a_held_job_waits(jobs: JobsOfAScheduler, oar: Oar) -> None:
    job_id = jobs.submit("t0123456789a", ARGUMENTS="--hold")
    assert jobs.status(job_id) is TrialJobStatus.WAITING
    oar.command("oarresume", job_id)
    jobs.wait(job_id, TrialJobStatus.RUNNING)


def test_memory_chooses_nodes_that_have_it(jobs: JobsOfAScheduler) -> None:
    jobs.wait(jobs.submit("t0123456789a", MEMORY_MB="100000"), TrialJobStatus.RUNNING)
    for _ in range(2):
        with pytest.raises(TemporaryError, match="not enough resources"):
            jobs.submit("t0123456789b", MEMORY_MB="100001")
    with pytest.raises(PermanentError, match="not enough resources"):
        jobs.submit("t0123456789b", MEMORY_MB="100001")


def test_a_job_that_has_ended_is_found_by_its_name_and_listed_no_more(jobs: JobsOfAScheduler) -> None:
    job_id = jobs.submit("t0123456789c", "true")
    jobs.wait(job_id, None)
    assert jobs.scheduler.find("t0123456789c") == [job_id]
    assert jobs.scheduler.find("tffffffffff") == []
