"""The ledger: one row for each attempt that has ended, whatever clocks, retries and faults do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, transaction
from django.utils import timezone

from nniweb.experiments.actions import change_and_undo
from nniweb.experiments.budgets import ledger
from nniweb.experiments.budgets.attempt_costs import charged_to
from nniweb.experiments.lifecycle import transitions
from nniweb.experiments.lifecycle.transitions import attempt_suspended, end_attempt
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import (
    ApiToken,
    Attempt,
    Experiment,
    ExperimentCluster,
    LedgerEntry,
    Machine,
    Price,
    Trial,
    User,
)
from nniweb.experiments.sql.append_only import AppendOnly
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.django_db
MakeAttempt = Callable[..., Attempt]
EARLIER = datetime(2026, 3, 31, 23, 59, tzinfo=UTC)


def end(attempt: Attempt, duration: float | None = 10.0, *, by_keeper: bool = True, at: datetime | None = None,
        status: TrialJobStatus = TrialJobStatus.SUCCEEDED, reason: str = "exited") -> LedgerEntry:
    assert end_attempt(attempt, TrialEnd(status, "", reason, 0, duration, by_keeper=by_keeper),
                       at or timezone.now(), revision=1)
    return LedgerEntry.objects.get(job_name=Attempt.objects.get(pk=attempt.pk).job_name)


def started(attempt: Attempt, at: datetime | None = None) -> Attempt:
    Attempt.objects.filter(pk=attempt.pk).update(started_at=at or timezone.now())
    return attempt


def test_a_row_says_whose_an_attempt_was_what_it_took_and_what_that_cost(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin) -> None:
    group = Group.objects.create(name="vision")
    token = ApiToken.make_with_row(admin, "laptop", "admin", None)[1]
    experiment = make_experiment(gpus_of_a_trial=4, cpus_of_a_trial=2.5, owner=admin, group=group, token=token)
    Price.objects.create(cluster=experiment.cluster, gpu_hour=Decimal("1.5"), cpu_hour=Decimal("0.04"))
    attempt = started(make_attempt(experiment))
    Attempt.objects.filter(pk=attempt.pk).update(created_at=EARLIER, machine_name="gpu1")
    row = end(attempt, 1800.0004)
    assert (row.owner, row.group, row.token, row.cluster, row.machine) == (
        admin.username, "vision", "laptop", experiment.cluster.name, "gpu1")
    assert (row.experiment, row.trial, row.number) == (experiment.public_id, attempt.trial.public_id, 1)
    assert (row.milliseconds, row.gpus, row.milli_cpus, row.measured_by) == (1_800_000, 4, 2500, "keeper")
    assert row.money == 3_050_000  # half an hour of 4 GPUs at 1.5 and 2.5 CPUs at 0.04
    assert row.month == "2026-03", "it belongs to the month in which the server started it"


def test_the_price_of_a_machine_and_the_gpus_on_a_cluster_go_before_the_general_ones(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt) -> None:
    experiment = make_experiment(gpus_of_a_trial=8)
    ExperimentCluster.objects.create(experiment=experiment, cluster=experiment.cluster, position=0, gpus_of_a_trial=2,
                                     cpus_of_a_trial=3)
    for machine, price in (("", 1), ("gpu1", 10)):
        Price.objects.create(cluster=experiment.cluster, machine=machine, gpu_hour=Decimal(price))
    dear, cheap = started(make_attempt(experiment)), started(make_attempt(experiment))
    Attempt.objects.filter(pk=dear.pk).update(machine_name="gpu1")
    rows = [end(dear, 3600), end(cheap, 3600)]
    assert [(row.gpus, row.milli_cpus, row.money) for row in rows] == [(2, 3000, 20_000_000), (2, 3000, 2_000_000)]


def test_a_trial_that_somebody_asked_for_is_charged_to_their_token(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin) -> None:
    of_experiment, of_trial = (ApiToken.make_with_row(admin, name, "admin", None)[1] for name in ("one", "two"))
    experiment = make_experiment(token=of_experiment)
    assert end(make_attempt(experiment)).token == "one"
    assert end(make_attempt(experiment, token=of_trial)).token == "two"


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
def test_what_a_keeper_measured_counts_whatever_clocks_say(make_attempt: MakeAttempt, jump: timedelta) -> None:
    attempt = started(make_attempt(), timezone.now() + jump)
    assert end(attempt, 12.3456, at=timezone.now() - jump).milliseconds == 12_346


def test_without_a_keeper_s_word_no_more_counts_than_the_server_saw(make_attempt: MakeAttempt) -> None:
    now = timezone.now()
    lost = started(make_attempt(), now - timedelta(hours=5))
    Attempt.objects.filter(pk=lost.pk).update(created_at=now - timedelta(hours=1))
    row = end(lost, None, by_keeper=False, at=now)
    assert row.measured_by == "server"
    assert 3_600_000 <= row.milliseconds < 3_610_000
    backwards = started(make_attempt(), now + timedelta(hours=5))
    assert end(backwards, None, by_keeper=False, at=now).milliseconds == 0
    row = end(make_attempt(), None, by_keeper=False)
    assert (row.measured_by, row.milliseconds) == ("none", 0)


def test_an_attempt_that_ends_twice_is_charged_once(make_attempt: MakeAttempt) -> None:
    attempt = started(make_attempt())
    end(attempt, 7.0)
    again = TrialEnd(TrialJobStatus.FAILED, "", "exited", 1, 99.0, by_keeper=True)
    assert not end_attempt(attempt, again, timezone.now(), revision=2)
    with transaction.atomic():
        assert not ledger.charge(attempt.pk, duration=99.0, by_keeper=True, ended_at=timezone.now(),
                                 now=timezone.now())
    assert [row.milliseconds for row in LedgerEntry.objects.all()] == [7000]


def test_an_end_that_is_not_committed_is_not_charged_and_one_that_is_not_charged_is_no_end(
        make_attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = started(make_attempt())
    with transaction.atomic():
        assert end(attempt)
        transaction.set_rollback(True)  # killed before the commit
    assert not LedgerEntry.objects.exists()

    def full(*_: object, **__: object) -> bool:
        raise DatabaseError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(transitions, "charge", full)
        with pytest.raises(DatabaseError):
            transaction.atomic(end)(attempt)
    assert Attempt.objects.get(pk=attempt.pk).stage == "submitted"
    assert end(attempt, 3.0).milliseconds == 3000


def test_each_attempt_of_a_trial_is_a_row_and_the_run_that_a_platform_suspended_too(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt) -> None:
    experiment = make_experiment(retry={"onFailure": 1})
    failed = started(make_attempt(experiment))
    end(failed, 5.0, status=TrialJobStatus.FAILED)
    second = Attempt.objects.get(trial=failed.trial, number=2)
    started(second)
    Attempt.objects.filter(pk=second.pk).update(stage="submitted", observed_end={"held": True, "duration": 6.0})
    with transaction.atomic():
        attempt_suspended(second, timezone.now(), revision=3, message="suspended")
    end(started(Attempt.objects.get(trial=failed.trial, number=3)), 7.0)
    assert list(LedgerEntry.objects.order_by("pk").values_list("number", "milliseconds", "measured_by")) == [
        (1, 5000, "keeper"), (2, 6000, "keeper"), (3, 7000, "keeper")]


def test_the_next_run_of_a_suspended_job_is_charged_to_whom_the_job_began_with(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin) -> None:
    vision = Group.objects.create(name="vision")
    experiment = make_experiment(owner=admin, group=vision)
    first = make_attempt(experiment)
    Attempt.objects.filter(pk=first.pk).update(**charged_to(experiment))
    Experiment.objects.update(owner=User.objects.create(username="mel"), group=None)
    attempt_suspended(Attempt.objects.get(pk=first.pk), timezone.now(), revision=2, message="suspended")
    end(Attempt.objects.get(trial=first.trial, number=2))
    assert list(LedgerEntry.objects.values_list("owner", "owner_id", "group", "group_id")) == [
        (admin.username, admin.pk, "vision", vision.pk)] * 2


def test_rows_stay_as_they_were_written_also_when_all_they_name_is_deleted(make_attempt: MakeAttempt) -> None:
    attempt = started(make_attempt())
    Machine.objects.create(cluster=attempt.cluster, name="gpu1")
    row = end(attempt)
    for change in (row.save, row.delete, LedgerEntry.objects.all().delete,
                   lambda: LedgerEntry.objects.update(milliseconds=0),
                   lambda: LedgerEntry._base_manager.all().delete()):
        with pytest.raises(AppendOnly, match="The ledger is append-only"):
            change()
    experiment = attempt.trial.experiment
    Trial.objects.filter(experiment=experiment).delete()
    experiment.delete()
    assert LedgerEntry.objects.get().experiment == experiment.public_id


def test_what_a_keeper_says_beyond_belief_is_cut(make_attempt: MakeAttempt, make_experiment: Callable[..., Experiment]
                                                 ) -> None:
    experiment = make_experiment(gpus_of_a_trial=2**31 - 1, cpus_of_a_trial=1e12)
    Price.objects.create(cluster=experiment.cluster, gpu_hour=Decimal(900_000), cpu_hour=Decimal(900_000))
    row = end(started(make_attempt(experiment)), 1e300)
    assert row.milliseconds == 366 * 24 * 3_600_000
    assert (row.gpus, row.milli_cpus, row.money) == (1_000_000, 100_000_000, 10**15)
    assert end(started(make_attempt(experiment)), -5.0).milliseconds == 0


@pytest.mark.parametrize(("before", "after"), [(8, 0), (0, 8)])
def test_a_trial_is_charged_for_the_gpus_that_it_was_given_whatever_its_experiment_asks_for_since(
        make_experiment: Callable[..., Experiment], make_attempt: MakeAttempt, admin, before: int, after: int) -> None:
    experiment = make_experiment(gpus_of_a_trial=before, trial_gpu_number=before, cpus_of_a_trial=2.5, owner=admin)
    runs, on_its_way, not_handed_over = (started(make_attempt(experiment)) for _ in range(3))
    Attempt.objects.filter(pk=on_its_way.pk).update(stage="submitting", token_hashes=["h"])
    Attempt.objects.filter(pk=not_handed_over.pk).update(stage="submitting", token_hashes=[])
    name = experiment.cluster.name
    for gpus in (after, before, after):
        change_and_undo.change(experiment, {"clusters": [{"name": name, "trialGpuNumber": gpus}]}, admin)
    [next_one] = [started(make_attempt(Experiment.objects.get(pk=experiment.pk)))]
    rows = [end(attempt, 3600) for attempt in (runs, on_its_way, not_handed_over, next_one)]
    assert [row.gpus for row in rows] == [before, 8, after, after]
    assert [row.milli_cpus for row in rows] == [2500, 2500, 1000, 1000]
