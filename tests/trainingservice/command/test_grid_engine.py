"""What a real Grid Engine makes of the commands of the example in docs/platforms/command.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.schedulers.grid_engine import GridEngine
from tests.trainingservice.command.jobs_of_a_scheduler import JobsOfAScheduler
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine() -> Iterator[GridEngine]:
    with GridEngine(slots=8, gpus=2) as engine:
        yield engine


@pytest.fixture
def jobs(engine: GridEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsOfAScheduler]:
    for name, value in engine.variables.items():
        monkeypatch.setenv(name, value)
    jobs = JobsOfAScheduler("SGE", tmp_path, engine.wait)
    yield jobs
    for job_id in jobs.ids:
        engine.command("qdel", job_id, check=False)
    engine.wait("its jobs have ended", lambda: not engine.job_names())


def test_memory_is_asked_for_the_job_and_not_for_each_of_its_cpus(jobs: JobsOfAScheduler) -> None:
    limit = jobs.folder / "limit"
    job_id = jobs.submit("t0123456789a", f"ulimit -v >{limit}", CPUS="4", MEMORY_MB="2048")
    jobs.wait(job_id, None)
    assert int(limit.read_text()) == 2048 * 1024


def test_memory_that_does_not_divide_by_the_cpus_is_rounded_up(jobs: JobsOfAScheduler) -> None:
    limit = jobs.folder / "limit"
    job_id = jobs.submit("t0123456789a", f"ulimit -v >{limit}", CPUS="3", MEMORY_MB="1000")
    jobs.wait(job_id, None)
    assert int(limit.read_text()) == 3 * 334 * 1024


def test_a_job_waits_where_all_gpus_are_in_use_and_runs_when_one_is_free(jobs: JobsOfAScheduler) -> None:
    first = jobs.submit("t0123456789a", GPUS="2")
    jobs.wait(first, TrialJobStatus.RUNNING)
    second = jobs.submit("t0123456789b", GPUS="1")
    assert jobs.status(second) is TrialJobStatus.WAITING
    assert jobs.scheduler.find("t0123456789b") == [second]
    jobs.scheduler.cancel(first)
    jobs.wait(first, None)
    jobs.wait(second, TrialJobStatus.RUNNING)


def test_a_held_job_waits_and_a_suspended_one_runs(jobs: JobsOfAScheduler, engine: GridEngine) -> None:
    held = jobs.submit("t0123456789a", ARGUMENTS="-h")
    assert jobs.status(held) is TrialJobStatus.WAITING
    engine.command("qrls", held)
    jobs.wait(held, TrialJobStatus.RUNNING)
    engine.command("qmod", "-sj", held)
    engine.wait("it is suspended", lambda: " s " in engine.command("qstat"))
    assert jobs.status(held) is TrialJobStatus.RUNNING


def test_a_job_that_can_never_run_fails(jobs: JobsOfAScheduler) -> None:
    """Grid Engine keeps it, in its state Eqw."""
    job_id = jobs.submit("t0123456789a", ARGUMENTS="-wd /no/such/folder")
    jobs.wait(job_id, TrialJobStatus.FAILED)


def test_a_waiting_job_is_canceled(jobs: JobsOfAScheduler) -> None:
    job_id = jobs.submit("t0123456789a", ARGUMENTS="-h")
    jobs.scheduler.cancel(job_id)
    jobs.wait(job_id, None)
    assert jobs.scheduler.find("t0123456789a") == []


def test_a_refused_job_fails_with_what_grid_engine_says(jobs: JobsOfAScheduler) -> None:
    for _ in range(2):
        with pytest.raises(TemporaryError, match="no-such-resource"):
            jobs.submit("t0123456789a", ARGUMENTS="-l no-such-resource=1")
    with pytest.raises(PermanentError, match="no-such-resource"):
        jobs.submit("t0123456789a", ARGUMENTS="-l no-such-resource=1")


def test_without_the_master_nothing_is_said_of_jobs_and_they_go_on(jobs: JobsOfAScheduler, engine: GridEngine) -> None:
    job_id = jobs.submit("t0123456789a")
    jobs.wait(job_id, TrialJobStatus.RUNNING)
    engine.stop_master()
    try:
        assert not jobs.scheduler.listed([job_id]).is_whole
        with pytest.raises(TemporaryError):
            jobs.scheduler.find("t0123456789a")
        with pytest.raises(TemporaryError):
            jobs.submit("t0123456789b")
    finally:
        engine.start_master()
    assert jobs.status(job_id) is TrialJobStatus.RUNNING
    assert jobs.scheduler.find("t0123456789a") == [job_id]
