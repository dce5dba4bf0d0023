"""What a real Grid Engine makes of the commands of the example in docs/platforms/command.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.schedulers.grid_engine import GridEngine
from tests.trainingservice.command.page_examples import settings_of
from trainingservice.command.scheduler import Scheduler
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.submit_host.host import ThisMachine
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.slow

ASKED = {"GPUS": "0", "CPUS": "1", "MEMORY_MB": "", "ARGUMENTS": "", "JOB_FOLDER": "/"}


@pytest.fixture(scope="module")
def engine() -> Iterator[GridEngine]:
    with GridEngine(slots=8, gpus=2) as engine:
        yield engine


class Cluster:
    """Jobs of a test: what they are and what is seen of them."""

    def __init__(self, engine: GridEngine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.scheduler = Scheduler(settings_of("SGE"), ThisMachine())
        self.ids: list[str] = []

    def submit(self, name: str, text: str = "sleep 600", **asked: str) -> str:
        script = self.folder / f"{name}.sh"
        script.write_text(f"{text}\n")
        self.ids.append(self.scheduler.submit(name, str(script), {**ASKED, **asked}))
        return self.ids[-1]

    def status(self, job_id: str) -> TrialJobStatus | None:
        listed = self.scheduler.listed([job_id])
        assert listed.is_whole, listed.said
        return listed.seen[job_id].status if job_id in listed.seen else None

    def wait(self, job_id: str, status: TrialJobStatus | None) -> None:
        self.engine.wait(f"job {job_id} is {status}", lambda: self.status(job_id) is status)


@pytest.fixture
def cluster(engine: GridEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    for name, value in engine.variables.items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(engine, tmp_path)
    yield cluster
    for job_id in cluster.ids:
        engine.command("qdel", job_id, check=False)
    engine.wait("its jobs have ended", lambda: not engine.job_names())


def test_memory_is_asked_for_the_job_and_not_for_each_of_its_cpus(cluster: Cluster) -> None:
    limit = cluster.folder / "limit"
    job_id = cluster.submit("t0123456789a", f"ulimit -v >{limit}", CPUS="4", MEMORY_MB="2048")
    cluster.wait(job_id, None)
    assert int(limit.read_text()) == 2048 * 1024


def test_memory_that_does_not_divide_by_the_cpus_is_rounded_up(cluster: Cluster) -> None:
    limit = cluster.folder / "limit"
    job_id = cluster.submit("t0123456789a", f"ulimit -v >{limit}", CPUS="3", MEMORY_MB="1000")
    cluster.wait(job_id, None)
    assert int(limit.read_text()) == 3 * 334 * 1024


def test_a_job_waits_where_all_gpus_are_in_use_and_runs_when_one_is_free(cluster: Cluster) -> None:
    first = cluster.submit("t0123456789a", GPUS="2")
    cluster.wait(first, TrialJobStatus.RUNNING)
    second = cluster.submit("t0123456789b", GPUS="1")
    assert cluster.status(second) is TrialJobStatus.WAITING
    assert cluster.scheduler.find("t0123456789b") == [second]
    cluster.scheduler.cancel(first)
    cluster.wait(first, None)
    cluster.wait(second, TrialJobStatus.RUNNING)


def test_a_held_job_waits_and_a_suspended_one_runs(cluster: Cluster) -> None:
    held = cluster.submit("t0123456789a", ARGUMENTS="-h")
    assert cluster.status(held) is TrialJobStatus.WAITING
    cluster.engine.command("qrls", held)
    cluster.wait(held, TrialJobStatus.RUNNING)
    cluster.engine.command("qmod", "-sj", held)
    cluster.engine.wait("it is suspended", lambda: " s " in cluster.engine.command("qstat"))
    assert cluster.status(held) is TrialJobStatus.RUNNING


def test_a_job_that_can_never_run_fails(cluster: Cluster) -> None:
    """Grid Engine keeps it, in its state Eqw."""
    job_id = cluster.submit("t0123456789a", ARGUMENTS="-wd /no/such/folder")
    cluster.wait(job_id, TrialJobStatus.FAILED)


def test_a_waiting_job_is_canceled(cluster: Cluster) -> None:
    job_id = cluster.submit("t0123456789a", ARGUMENTS="-h")
    cluster.scheduler.cancel(job_id)
    cluster.wait(job_id, None)
    assert cluster.scheduler.find("t0123456789a") == []


def test_a_refused_job_fails_with_what_grid_engine_says(cluster: Cluster) -> None:
    for _ in range(2):
        with pytest.raises(TemporaryError, match="no-such-resource"):
            cluster.submit("t0123456789a", ARGUMENTS="-l no-such-resource=1")
    with pytest.raises(PermanentError, match="no-such-resource"):
        cluster.submit("t0123456789a", ARGUMENTS="-l no-such-resource=1")


def test_while_the_master_is_away_nothing_is_said_of_jobs_and_they_go_on(cluster: Cluster) -> None:
    job_id = cluster.submit("t0123456789a")
    cluster.wait(job_id, TrialJobStatus.RUNNING)
    cluster.engine.stop_master()
    try:
        assert not cluster.scheduler.listed([job_id]).is_whole
        with pytest.raises(TemporaryError):
            cluster.scheduler.find("t0123456789a")
        with pytest.raises(TemporaryError):
            cluster.submit("t0123456789b")
    finally:
        cluster.engine.start_master()
    assert cluster.status(job_id) is TrialJobStatus.RUNNING
    assert cluster.scheduler.find("t0123456789a") == [job_id]
