"""While the database takes nothing the holder keeps its lease, nothing new is started, and it goes on by itself."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection

from nniweb.experiments.clusters.lease import LEASE_SECONDS, Lease, LeaseLost
from nniweb.experiments.clusters.worker_presence import worker_is_alive
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial
from nniweb.experiments.queries.explanation import explanations_of
from nniweb.experiments.results.progress import progress_of
from nniweb.experiments.sql import database_health
from nniweb.observability.readiness import readiness
from nniweb.worker.rounds import runner
from tests.nniweb.worker.conftest import Rig, report


@contextmanager
def full_disk() -> Iterator[None]:
    """Reads go on; whatever this thread writes is refused as SQLite does on a full disk."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            raise OperationalError("database or disk is full")
        return execute(sql, params, many, context)

    with ExitStack() as stack:
        stack.enter_context(connection.execute_wrapper(refuse))
        yield


@pytest.fixture(autouse=True)
def no_trouble_is_left() -> Iterator[None]:
    yield
    database_health.note_written()


def let_the_lease_run_out(lease: Lease) -> None:
    lease._good_until -= 2 * LEASE_SECONDS


def test_the_holder_keeps_its_lease_by_its_epoch_and_starts_nothing_while_nothing_can_be_written(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2)
    [trial] = rig.submitted(experiment, 1)
    epoch, service = rig.runner.lease.epoch, rig.service
    report(trial, 0.5)
    with full_disk():
        let_the_lease_run_out(rig.runner.lease)
        for _ in range(3):
            rig.runner._stopping.wait = lambda seconds: False  # type: ignore[method-assign]  # no pauses here
            assert not rig.runner._guarded_round(None)
        assert not rig.runner.lease.is_lost
        assert Attempt.objects.count() == 1, "nothing new is started"
        assert "database or disk is full" in database_health.write_trouble()
        assert worker_is_alive(), "that none was heard says nothing while none can write"
        experiment.refresh_from_db()
        sentence = explanations_of([experiment], progress_of([experiment], experiment.created_at))[experiment.pk]
        assert sentence.startswith("The database does not accept writes at the moment (database or disk is full).")
    assert rig.runner._guarded_round(None)
    rig.submitted(experiment, 2)
    assert rig.runner.work.service is service, "it went on where it was"
    assert Cluster.objects.get(pk=rig.cluster.pk).lease_epoch == epoch


def test_a_holder_that_could_not_renew_is_fenced_once_another_epoch_has_begun(rig: Rig) -> None:
    let_the_lease_run_out(rig.runner.lease)
    Cluster.objects.filter(pk=rig.cluster.pk).update(lease_holder="another", lease_epoch=rig.runner.lease.epoch + 1)
    with pytest.raises(LeaseLost):
        rig.runner._guarded_round(None)
    assert rig.runner.lease.is_lost


def test_trials_the_assessor_gave_up_are_stopped_though_the_first_try_could_not_be_written(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2, assessor={"name": "Medianstop"})
    trial, _ = rig.submitted(experiment, 2)
    desk = rig.runner.work.tuners
    state = desk._opened[experiment.pk]
    wanted: list[list[str]] = []

    def stop(experiment: Experiment, trials: list[str]) -> None:
        wanted.append(list(trials))
        if len(wanted) == 1:
            raise OperationalError("database or disk is full")

    desk._stop = stop
    state.stops = [trial.public_id]
    desk.assess(experiment, [], 0)
    with pytest.raises(OperationalError):
        rig.until(lambda: wanted)
    desk.assess(experiment, [], 0)
    rig.until(lambda: len(wanted) == 2)
    assert wanted[0] == wanted[1] == [trial.public_id]
    assert Trial.objects.filter(experiment=experiment).count() == 2


def test_a_nearly_full_disk_is_said_before_it_is_full(settings: Any) -> None:
    settings.LOW_SPACE_BYTES = 0
    assert database_health.trouble() == ""
    settings.LOW_SPACE_BYTES = 10**18
    assert database_health.trouble().startswith("Only ")
    assert str(settings.DATA_FOLDER) in database_health.trouble()


def test_rounds_that_fail_by_a_defect_are_told_until_one_does_not(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(work: object) -> None:
        raise ValueError("a defect")

    rig.runner._stopping.wait = lambda seconds: False  # type: ignore[method-assign]  # no pauses here
    with monkeypatch.context() as patch:
        patch.setattr(runner.observe_trials, "observe_trials", fail)
        assert not rig.runner._guarded_round(None)
        ready, document = readiness()
        assert (ready, "(ValueError) and are tried again" in " ".join(document["warnings"])) == (True, True)
    assert rig.runner._guarded_round(None)
    assert "are tried again" not in " ".join(readiness()[1]["warnings"])
