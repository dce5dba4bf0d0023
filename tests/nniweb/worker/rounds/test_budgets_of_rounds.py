"""What budgets make of a cluster's rounds: which trials start, which wait, and what a waiting trial says."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.budgets.concerned import Held
from nniweb.experiments.budgets.standing import standing
from nniweb.experiments.budgets.starting import RoundBudgets
from nniweb.experiments.models import ApiToken, Attempt, Budget, Experiment, LedgerEntry, Price, Trial, User
from nniweb.experiments.models.limits import next_month
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.worker.rounds.placing import waiting_trials
from tests.nniweb.worker.conftest import Rig, report


def begun(experiment: Experiment) -> int:
    return Attempt.objects.filter(trial__experiment=experiment, number=1).count()


def waiting(experiment: Experiment) -> list[Trial]:
    return list(Trial.objects.filter(experiment=experiment, status="WAITING", attempts=None).order_by("sequence_id"))


def end(trial: Trial, **how: object) -> None:
    report(trial, 0.5, **how)  # type: ignore[arg-type]


def trials_of(budget: Budget) -> tuple[int, int]:
    """How many have ended, and how many run."""
    found = standing(Held(budget), timezone.now())
    return found.used.trials, found.running.trials


def test_no_trial_more_begins_than_a_budget_has_one_says_why_and_it_starts_when_the_limit_is_raised(
        rig: Rig, admin) -> None:
    budget = Budget.objects.create(user=admin, trials=3)
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=8)
    for trial in rig.submitted(experiment, 2):
        end(trial)
    end(rig.submitted(experiment, 3)[-1])
    rig.until(lambda: waiting(experiment))
    rig.rounds(4)
    assert begun(experiment) == 3
    [held] = waiting(experiment)
    assert held.reason == "budget"
    again = f"{next_month(timezone.now()):%Y-%m-%d}"
    assert held.reason_arguments == {"whose": {"kind": "person", "name": "ada"}, "unit": "trials", "most": 3, "left": 0,
                                     "period": "month", "again": again}
    assert held.message == (f"Waits for the budget of ada: of 3 trials a month, 0 are left. It begins anew on {again} "
                            "(UTC). An administrator can raise it.")
    revision = Experiment.objects.get(pk=experiment.pk).revision
    rig.rounds(3)
    assert Experiment.objects.get(pk=experiment.pk).revision == revision, "what has not changed is not written again"
    Budget.objects.filter(pk=budget.pk).update(trials=4)
    rig.until(lambda: begun(experiment) == 4)
    assert Trial.objects.get(pk=held.pk).message == ""


def test_when_a_month_begins_trials_start_by_themselves(rig: Rig, admin) -> None:
    Budget.objects.create(trials=1)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=4)
    end(rig.submitted(experiment, 1)[0])
    rig.until(lambda: waiting(experiment))
    assert "the budget that each person has" in waiting(experiment)[0].message
    rig.clock_error = (next_month(timezone.now()) - timezone.now()).total_seconds() + 1
    rig.until(lambda: begun(experiment) == 2)


def test_what_runs_goes_on_when_hours_are_used_up_and_nothing_more_starts(rig: Rig, admin) -> None:
    budget = Budget.objects.create(user=admin, period="total", wall_hours=Decimal("0.0004"))  # 1.44 s; a trial is 1 s
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=8)
    first, second = rig.submitted(experiment, 2)
    end(first)
    rig.until(lambda: begun(experiment) == 3)
    end(second)
    rig.until(lambda: waiting(experiment))
    rig.rounds(3)
    assert begun(experiment) == 3
    [running] = Attempt.objects.under_way().filter(trial__experiment=experiment)
    end(running.trial)
    assert [row.milliseconds for row in LedgerEntry.objects.order_by("pk")] == [1000] * 3
    assert "0.0004 hours of trials in total, 0 are left. An administrator" in waiting(experiment)[0].message
    budget.delete()
    rig.until(lambda: begun(experiment) == 5)


def test_a_retry_waits_for_hours_and_is_no_trial_more(rig: Rig, admin) -> None:
    hours = Budget.objects.create(user=admin, period="total", wall_hours=Decimal("0.0002"))  # 0.72 s
    Budget.objects.create(user=admin, period="month", trials=1)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2, retry={"onFailure": 2})
    [trial] = rig.submitted(experiment, 1)
    queued = intents.submit_trial(experiment, {"x": 0.5})
    end(trial, exit_code=1)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).reason == "budget")
    assert Attempt.objects.filter(trial=trial).count() == 1
    hours.delete()
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=2, stage="submitted").exists())
    end(trial, journal="another")
    rig.rounds(3)
    assert list(LedgerEntry.objects.order_by("pk").values_list("number", flat=True)) == [1, 2]
    assert Trial.objects.get(pk=queued.pk).reason == "budget", "the one trial of the budget has begun"


def test_a_token_pays_for_the_trials_that_it_asked_for_in_the_experiments_of_others(rig: Rig, admin) -> None:
    program = ApiToken.make_with_row(admin, "agent", "admin", None)[1]
    Budget.objects.create(token=program, trials=1, period="total")
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=4)
    rig.submitted(experiment, 1)
    queued = [intents.submit_trial(experiment, {"x": 0.5}) for _ in range(3)]
    Trial.objects.filter(pk__in=[trial.pk for trial in queued[:2]]).update(token=program)
    Experiment.objects.filter(pk=experiment.pk).update(trial_concurrency=4)
    rig.until(lambda: Attempt.objects.filter(trial__in=queued).count() == 2)
    rig.rounds(3)
    first, second, third = (Trial.objects.get(pk=trial.pk) for trial in queued)
    assert (first.reason, second.reason, third.reason) == ("", "budget", "")
    assert second.message.startswith("Waits for the budget of the token agent: of 1 trial in total")
    revision = second.revision
    rig.rounds(3)
    assert Trial.objects.get(pk=second.pk).revision == revision


def test_money_is_counted_by_the_prices_of_then(rig: Rig, admin) -> None:
    price = Price.objects.create(cluster=rig.cluster, gpu_hour=Decimal(3600))
    Budget.objects.create(user=admin, money=Decimal(5), period="total")
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=9, gpus_of_a_trial=2)
    end(rig.submitted(experiment, 1)[0])  # 1 s of 2 GPUs: 2
    rig.until(lambda: begun(experiment) == 2)
    Price.objects.filter(pk=price.pk).update(gpu_hour=Decimal(7200))
    end(rig.submitted(experiment, 2)[1])  # 4
    rig.until(lambda: waiting(experiment))
    assert [row.money for row in LedgerEntry.objects.order_by("pk")] == [2_000_000, 4_000_000]
    assert "of 5 of money in total, 0 is left" in waiting(experiment)[0].message


def test_without_a_budget_a_round_asks_once_whether_there_is_one(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=3)
    budgets = RoundBudgets(timezone.now() - timedelta(days=1))
    with CaptureQueriesContext(connection) as asked:
        assert budgets.room(experiment, 3).count == budgets.room(experiment, 3).count == 3
    assert len(asked) == 1


def test_trials_that_run_stay_with_whom_they_began_when_their_experiment_is_handed_over(
        rig: Rig, admin, monkeypatch: pytest.MonkeyPatch) -> None:
    mel = User.objects.create(username="mel", role=admin.role)
    mine, hers = (Budget.objects.create(user=user, trials=3, period="total") for user in (admin, mel))
    given = []
    for used in (1, 2, 3):
        experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
        rig.submitted(experiment, 1)
        intents.hand_over(experiment, mel)
        given.append(experiment)
        assert (trials_of(mine), trials_of(hers)) == ((0, used), (0, 0))
    more = rig.experiment(trial_concurrency=1, max_trial_number=1)
    rig.until(lambda: waiting(more))
    rig.rounds(3)
    assert begun(more) == 0
    for experiment in given:
        end(Trial.objects.get(experiment=experiment))
    assert (trials_of(mine), trials_of(hers)) == ((3, 0), (0, 0))
    assert {(row.owner_id, row.owner) for row in LedgerEntry.objects.all()} == {(admin.pk, admin.username)}
    monkeypatch.setattr("nniweb.management.commands.ledger.require_served_before", lambda: None)
    call_command("ledger", "--check")


def test_what_begins_after_a_hand_over_is_the_new_owners_also_a_retry(rig: Rig, admin) -> None:
    mel = User.objects.create(username="mel", role=admin.role)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=2, retry={"onFailure": 1})
    [first] = rig.submitted(experiment, 1)
    intents.hand_over(experiment, mel)
    end(first, exit_code=1)
    rig.until(lambda: Attempt.objects.filter(trial=first, number=2, stage="submitted").exists())
    end(first, journal="another")
    rig.until(lambda: Attempt.objects.filter(trial__sequence_id=1, stage="submitted").exists())
    end(Trial.objects.get(experiment=experiment, sequence_id=1))
    assert list(LedgerEntry.objects.order_by("pk").values_list("owner", "number")) == [
        (admin.username, 1), ("mel", 2), ("mel", 1)]


def test_trials_that_run_stay_with_the_group_when_their_experiment_is_unshared_and_shared_again(
        rig: Rig, admin) -> None:
    vision, speech = (Group.objects.create(name=name) for name in ("vision", "speech"))
    theirs, others = (Budget.objects.create(group=group, trials=2, period="total") for group in (vision, speech))
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=4, group=vision)
    first, second = rig.submitted(experiment, 2)
    intents.share(experiment, None)
    assert trials_of(theirs) == (0, 2)
    end(first)
    assert trials_of(theirs) == (1, 1), "it ended while it was unshared, and counts to the group"
    third = rig.submitted(experiment, 3)[2]
    assert trials_of(theirs) == (1, 1), "it began while it was unshared"
    intents.share(experiment, speech)
    end(third)
    rig.submitted(experiment, 4)
    assert (trials_of(theirs), trials_of(others)) == ((1, 1), (0, 1)), "the fourth one began in the other group"
    end(second)
    assert list(LedgerEntry.objects.order_by("pk").values_list("group", flat=True)) == ["vision", "", "vision"]


def test_trials_that_wait_for_the_budget_of_a_token_keep_nobody_else_waiting_however_many_they_are(rig: Rig, admin
                                                                                                  ) -> None:
    program = ApiToken.make_with_row(admin, "agent", "admin", None)[1]
    Budget.objects.create(token=program, trials=1, period="total")
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=300)
    rig.submitted(experiment, 1)
    queued = [intents.submit_trial(experiment, {"x": 0.5}).pk for _ in range(110)]
    Trial.objects.filter(pk__in=queued).update(token=program)
    own = intents.submit_trial(experiment, {"x": 0.25})
    Experiment.objects.filter(pk=experiment.pk).update(trial_concurrency=4)
    rig.until(lambda: Attempt.objects.filter(trial__in=queued).count() == 1)
    rig.rounds(6)
    assert Attempt.objects.filter(trial=own).exists()
    assert set(Trial.objects.filter(pk__in=queued, attempts=None).values_list("reason", flat=True)) == {"budget"}


def test_a_trial_that_is_stopped_while_the_round_writes_what_trials_wait_for_says_that_it_was_stopped(
        rig: Rig, admin, monkeypatch) -> None:
    Budget.objects.create(user=admin, trials=1)
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=8)
    rig.submitted(experiment, 1)
    queued = [intents.submit_trial(experiment, {"x": 0.5}) for _ in range(2)]

    def taken_after_a_stop(experiment_pk: int, *, needs_round: bool = True) -> int:
        monkeypatch.undo()  # whoever has the experiment when the round asks for it ends a trial
        intents.cancel_trial(queued[0], admin)
        return next_revision(experiment_pk, needs_round=needs_round)

    monkeypatch.setattr(waiting_trials, "next_revision", taken_after_a_stop)
    rig.until(lambda: Trial.objects.get(pk=queued[1].pk).reason == "budget")
    assert Trial.objects.get(pk=queued[0].pk).reason == "canceled"
