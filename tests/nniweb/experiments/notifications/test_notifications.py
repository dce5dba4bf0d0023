"""What people are told, and when: written with what happened, and no flood."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.lifecycle.transitions import move_experiment, move_trial
from nniweb.experiments.models import Attempt, Experiment, NotificationDelivery, NotificationRule, Trial, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.notifications.notification_queue import claim
from nniweb.experiments.notifications.outbox import BEST_PAUSE
from nniweb.worker.notifications.notification_mail import headline
from trainingservice.trial_job_status import TrialJobStatus

Make = Callable[..., Experiment]
START = timezone.now()


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice", role=Role.MEMBER)


def rule(owner: User, **fields: Any) -> NotificationRule:
    return NotificationRule.objects.create(**{"owner": owner, "channel": "webhook", "created_at": START,
                                              "on_best": True, **fields})


def told(**which: Any) -> list[dict[str, Any]]:
    return [json.loads(body) for body in NotificationDelivery.objects.filter(**which).order_by("pk").values_list(
        "body", flat=True)]


def ends_with(experiment: Experiment, value: float | None, at: datetime = START,
              status: TrialJobStatus = TrialJobStatus.SUCCEEDED) -> Trial:
    experiment.refresh_from_db()
    trial = Trial.objects.create(experiment=experiment, sequence_id=experiment.next_sequence_id, created_at=START,
                                 status="RUNNING", final_number=value)
    trial.parameter_sets.create(value={"x": 0.25})
    Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=trial.sequence_id + 1)
    assert move_trial(trial.pk, status, at, revision=1)
    return trial


def end(experiment: Experiment, status: ExperimentStatus = ExperimentStatus.DONE, at: datetime = START) -> None:
    experiment.refresh_from_db()
    if status == ExperimentStatus.DONE and experiment.status == ExperimentStatus.RUNNING:
        assert move_experiment(experiment, ExperimentStatus.NO_MORE_TRIAL, at)
    assert move_experiment(experiment, status, at, message="It is over.")


def test_the_end_of_an_experiment_is_told_with_its_trials_and_its_best(make_experiment: Make, alice: User) -> None:
    rule(alice, on_best=False)
    experiment = make_experiment(owner=alice)
    ends_with(experiment, 0.5)
    best = ends_with(experiment, 0.25)
    ends_with(experiment, None, status=TrialJobStatus.FAILED)
    assert told() == []
    end(experiment)
    [message] = told()
    assert message["event"] == "experiment.done"
    assert message["experiment"]["id"] == experiment.public_id
    assert message["experiment"]["status"] == "DONE"
    assert (message["experiment"]["trials"]["SUCCEEDED"], message["experiment"]["trials"]["FAILED"]) == (2, 1)
    assert message["best"] == {"trial": best.public_id, "sequence_id": 1, "value": 0.25, "parameters": {"x": 0.25}}
    assert message["experiment"]["page"].endswith(f"/experiments/{experiment.public_id}/")


def test_the_end_of_an_experiment_whose_trials_all_failed_says_so(make_experiment: Make, alice: User) -> None:
    rule(alice)
    experiment = make_experiment(owner=alice)
    for number in range(2):
        Trial.objects.create(experiment=experiment, sequence_id=number, status="FAILED", created_at=START)
    end(experiment)
    [message] = told()
    assert message["experiment"]["outcome"] == "failed"
    assert headline(message["event"], message) == "quadratic: done, 2 of 2 trials failed"


def test_done_and_failed_are_told_apart_and_a_stop_is_nobodys_news(make_experiment: Make, alice: User) -> None:
    rule(alice, on_done=False)
    done, failed, stopped = (make_experiment(owner=alice) for _ in range(3))
    end(done)
    end(failed, ExperimentStatus.ERROR)
    end(stopped, ExperimentStatus.STOPPING)
    end(stopped, ExperimentStatus.STOPPED)
    assert [(message["event"], message["experiment"]["message"]) for message in told()] == [
        ("experiment.failed", "It is over.")]


def test_what_did_not_happen_is_not_told(make_experiment: Make, alice: User, db: None) -> None:
    rule(alice)
    experiment = make_experiment(owner=alice)

    def and_then_it_breaks() -> None:
        with transaction.atomic():
            end(experiment)
            assert len(told()) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        and_then_it_breaks()
    assert told() == []


def test_people_are_told_of_what_they_asked_for_and_may_see(make_experiment: Make, admin: User, alice: User) -> None:
    group = Group.objects.create(name="vision")
    bob, charlie, closed = (User.objects.create_user(name, role=Role.MEMBER) for name in ("bob", "charlie", "dora"))
    for person in (alice, bob):
        person.groups.add(group)
    shared, others = make_experiment(owner=alice, group=group), make_experiment(owner=admin)
    expected = [rule(alice), rule(bob, group=group), rule(bob, experiment=shared), rule(admin, experiment=shared)]
    rule(alice, enabled=False)
    rule(charlie, group=group)  # was in the group once
    rule(charlie, experiment=shared)
    rule(bob)  # of his own experiments alone
    rule(alice, experiment=others)
    closed.groups.add(group)
    rule(closed, group=group)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    end(shared)
    assert {message["rule"] for message in told()} == {each.public_id for each in expected}


@pytest.mark.parametrize(("mode", "values", "news"), [
    ("minimize", [3.0, 4.0, 2.0, 2.0, None, 1.0], [3.0, 2.0, 1.0]),
    ("maximize", [3.0, 4.0, 2.0, 4.0, 5.0], [3.0, 4.0, 5.0]),
])
def test_a_new_best_is_one_that_is_better_than_all_before(make_experiment: Make, alice: User, mode: str,
                                                          values: list[float | None], news: list[float]) -> None:
    rule(alice)
    experiment = make_experiment(owner=alice, optimize_mode=mode)
    for number, value in enumerate(values):
        ends_with(experiment, value, START + number * BEST_PAUSE)
    assert [message["best"]["value"] for message in told()] == news
    assert [message["best_before"] for message in told()] == [None, *news[:-1]]


def test_a_failed_trials_value_is_no_result(make_experiment: Make, alice: User) -> None:
    rule(alice)
    ends_with(make_experiment(owner=alice), 1.0, status=TrialJobStatus.FAILED)
    assert told() == []


def test_many_new_bests_are_one_message_in_ten_minutes_with_the_latest(make_experiment: Make, alice: User) -> None:
    rule(alice)
    experiment = make_experiment(owner=alice)
    for number in range(20):
        ends_with(experiment, 100.0 - number, START - timedelta(minutes=5) + timedelta(seconds=number))
        if number == 0:  # the first is sent before the others come
            [sent] = claim("worker", 1, (), timezone.now())
            NotificationDelivery.objects.filter(pk=sent.pk).update(state="delivered", claimed_until=None)
    [waits] = NotificationDelivery.objects.filter(state="waiting")
    assert json.loads(waits.body)["best"]["value"] == 81.0
    assert waits.due_at == sent.planned_at + BEST_PAUSE
    assert [message["best"]["value"] for message in told(state="delivered")] == [100.0]


def test_a_best_that_waits_is_told_with_the_end(make_experiment: Make, alice: User, admin: User) -> None:
    everything = rule(alice)
    bests = rule(alice, on_done=False, on_failed=False)
    experiment = make_experiment(owner=alice)
    ends_with(experiment, 2.0, START)
    NotificationDelivery.objects.update(state="delivered")
    ends_with(experiment, 1.0, START)
    end(experiment, at=START)
    assert [message["event"] for message in told(rule=everything, state="waiting")] == ["experiment.done"]
    [waits] = NotificationDelivery.objects.filter(rule=bests, state="waiting")
    assert waits.due_at == START, "no better one can come"


def test_experiments_do_not_share_their_pause(make_experiment: Make, alice: User) -> None:
    rule(alice)
    for experiment in (make_experiment(owner=alice), make_experiment(owner=alice)):
        ends_with(experiment, 1.0)
    assert [delivery.due_at for delivery in NotificationDelivery.objects.all()] == [START, START]


def test_where_nobody_listens_it_costs_one_query(make_experiment: Make, make_attempt: Callable[..., Attempt]) -> None:
    trial = make_attempt(make_experiment(), status="RUNNING", final_number=1.0).trial
    with CaptureQueriesContext(connection) as queries:
        move_trial(trial.pk, TrialJobStatus.SUCCEEDED, START, revision=1)
    assert sum("notification" in query["sql"] for query in queries) == 1
