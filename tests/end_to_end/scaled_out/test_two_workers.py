"""Rows of the kill table with two workers: one is killed while many trials run, one sleeps past its lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.end_to_end.kill_table.witnessed_experiment import WitnessedExperiment
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.several_processes import Installation, is_traceback_free
from tests.fakes.ssh_machine import SshMachine


@pytest.fixture
def make_remote_cluster(tmp_path: Path) -> Iterator[Callable[[str, int], dict[str, Any]]]:
    """A ``trainingService`` section of one machine behind a real sshd: no cluster is pinned to a worker's host."""
    with ExitStack() as stack:

        def make(name: str, room: int) -> dict[str, Any]:
            machine = stack.enter_context(SshMachine(tmp_path / name, name))
            return {"platform": "remote", "machineList": [machine.in_config(maxTrialNumber=room)]}

        yield make


def running(installation: Installation) -> int:
    [(count,)] = installation.rows("SELECT count(*) FROM experiments_trial WHERE status = 'RUNNING'")
    return int(count)


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize("trials", [100])
@pytest.mark.kill_table("kill -9 of one of two workers (PostgreSQL, Redis) while 200 trials run")
def test_a_worker_that_is_killed_while_200_trials_run_loses_none(
        installation: Installation, make_remote_cluster: Callable[[str, int], dict[str, Any]], tmp_path: Path,
        trials: int, seed: int) -> None:
    web = installation.web("web").start()
    workers = [installation.worker(name, NNIWEB_DATABASE_CONNECTIONS="4").start() for name in ("one", "two")]
    go = tmp_path / "go"
    experiments = []
    for index, name in enumerate(("ada", "bob")):
        experiments.append(WitnessedExperiment(
            web, tmp_path / f"experiment{index}", trials=trials, concurrency=trials, steps=20, pause=0.2, go=go,
            platform=make_remote_cluster(name, trials)).launch())
        web.wait_until(lambda wanted=index + 1: len(installation.holders()) == wanted, what="somebody drives it")
    web.wait_until(lambda: running(installation) == 2 * trials, 300, "all run")
    # each drives one, unless the machine is so busy that one was slow to come
    driving = [worker for worker in workers if installation.worker_id(worker) in installation.holders().values()]
    victim = Random(seed).choice(driving)
    [heir] = [worker for worker in workers if worker is not victim]
    victim.kill()
    installation.wait_until_taken_over(heir)
    go.touch()
    for experiment in experiments:
        experiment.nothing_is_lost(patience=400)
    for process in (web, *workers):
        assert is_traceback_free(process.log()), process.log()


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.kill_table("kill -9 of a worker on another host (PostgreSQL): its lease has to run out")
def test_a_worker_that_is_killed_on_another_host_is_replaced_when_its_lease_has_run_out(
        installation: Installation, make_remote_cluster: Callable[[str, int], dict[str, Any]], tmp_path: Path,
        seed: int) -> None:
    web, far = installation.web("web").start(), installation.worker("far", host="elsewhere").start()
    go = tmp_path / "go"
    experiment = WitnessedExperiment(web, tmp_path / "experiment", trials=6, concurrency=3, steps=30, pause=0.1, go=go,
                                     platform=make_remote_cluster("ada", 3)).launch()
    some = Random(seed).randint(1, 80)
    web.wait_until(lambda: experiment.begun() == 3 and experiment.reported() >= some, what="three trials report")
    heir = installation.worker("heir").start()  # it can see whether processes of its own host live, not those of others
    installation.worker_id(heir)
    assert list(installation.holders().values()) == [installation.worker_id(far)]
    [(runs_out,)] = installation.rows("SELECT lease_expires_at FROM experiments_cluster WHERE lease_holder <> ''")
    far.kill()
    go.touch()  # they end while nobody drives their cluster
    taken = installation.wait_until_taken_over(heir)
    assert taken >= runs_out, "not before: from here nobody can know that it is dead"
    experiment.nothing_is_lost()
    assert is_traceback_free(heir.log()), heir.log()


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.kill_table("SIGSTOP of a worker past its lease, then SIGCONT (PostgreSQL)")
def test_a_worker_that_slept_past_its_lease_writes_nothing_when_it_wakes_up(
        installation: Installation, make_remote_cluster: Callable[[str, int], dict[str, Any]], tmp_path: Path,
        seed: int) -> None:
    web, sleeper = installation.web("web").start(), installation.worker("sleeper").start()
    installation.note_writers()
    experiment = WitnessedExperiment(web, tmp_path / "experiment", trials=12, concurrency=3, steps=20, pause=0.1,
                                     platform=make_remote_cluster("ada", 3)).launch()
    some = Random(seed).randint(3, 6)
    web.wait_until(lambda: experiment.begun() >= some, what="trials run")  # and end, while it falls asleep
    sleeper.pause()
    other = installation.worker("other").start()
    web.wait_until(lambda: list(installation.holders().values()) == [installation.worker_id(other)],
                   what="the other one takes over when the lease has run out")
    before = installation.writes_of(sleeper)
    assert before["experiments_attempt"], "it did write while it had the lease"
    begun = experiment.begun()
    web.wait_until(lambda: experiment.begun() > begun or experiment.begun() == 12, what="the other one goes on")
    sleeper.go_on()
    sleeper.wait_until(lambda: "another worker has taken over" in sleeper.log(), what="it has noticed")
    experiment.nothing_is_lost()
    assert sleeper.stop() == 0
    after = installation.writes_of(sleeper)
    # that it lives it may say, and what it had said of the experiment before it slept belongs into the log
    del before["experiments_worker"], after["experiments_worker"]
    lines, revisions = (after.pop(table) - before.pop(table)
                        for table in ("experiments_logline", "experiments_experiment"))
    assert revisions <= lines, "lines of the log take a revision, nothing else of the experiment was written"
    assert after == before, "it wrote nothing else after it woke up"
    assert installation.writes_of(other)["experiments_attempt"]
    assert is_traceback_free(sleeper.log()), sleeper.log()


def ahead(installation: Installation) -> float:
    """By how many seconds the database's clock is ahead of this machine's."""
    [(seconds,)] = installation.rows("SELECT extract(epoch FROM clock_timestamp())::float8 - %s", time.time())
    return float(seconds)


@pytest.mark.timeout(400)
@pytest.mark.slow
@pytest.mark.kill_table("PostgreSQL's clock jumps an hour forward and back while two workers run")
def test_a_database_whose_clock_jumps_an_hour_forward_and_back_loses_nothing(faketime: str, tmp_path: Path,
                                                                            seed: int) -> None:
    with ExitStack() as stack:
        postgresql = PostgresqlServer(faketime)
        stack.callback(postgresql.close)
        postgresql.start()
        installation = Installation(tmp_path, postgresql.new_database(), postgresql.token)
        stack.callback(installation.close)
        web, *workers = [process.start() for process in (
            installation.web("web"), installation.worker("one"), installation.worker("two"))]
        experiment = WitnessedExperiment(
            web, tmp_path / "experiment", trials=12, concurrency=3, steps=30, pause=0.1, maxTrialDuration="30m",
            platform={"platform": "scripted_anywhere", "folder": str(tmp_path / "cluster")}).launch()
        for hours in (1, 0, -1, 0):
            begun = experiment.begun()
            web.wait_until(lambda: experiment.begun() >= min(begun + 3, 12), 120, "trials go on")  # noqa: B023
            postgresql.set_clock(f"{hours * 3600:+}")
            web.wait_until(lambda: abs(ahead(installation) - hours * 3600) < 600,  # noqa: B023
                           what="PostgreSQL has the clock it was given")
        experiment.nothing_is_lost()
        for process in (web, *workers):
            assert is_traceback_free(process.log()), process.log()
