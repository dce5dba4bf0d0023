"""What is kept of trials that ended long ago is what all rows say, whatever happens to them."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.lifecycle import transitions
from nniweb.experiments.lifecycle.trial_end import TrialEnd
from nniweb.experiments.models import Attempt, Experiment, SettledTrials, Trial, User
from nniweb.experiments.models.trial import RESULTS, TrialTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.queries.usage import usage
from nniweb.experiments.results.best_so_far import improvements_of
from nniweb.experiments.results.settled_trials import trial_counts
from nniweb.experiments.retention import settling
from nniweb.experiments.retention.removal import Pace
from nniweb.experiments.retention.settled_check import differing_experiments
from nniweb.worker.housekeeping.upkeep import Upkeep
from trainingservice.trial_job_status import ENDS, TrialJobStatus

Make = Callable[..., Any]
DAY = timedelta(days=1)
NOW = datetime(2030, 6, 1, tzinfo=timezone.get_default_timezone())


class World:
    """Experiments to which things happen, with a clock of their own."""

    def __init__(self, experiments: list[Experiment], reader: User, seed: int) -> None:
        self.experiments, self.reader, self.random, self.now = experiments, reader, Random(seed), NOW
        self.upkeep = Upkeep(now=lambda: self.now, sleep=lambda seconds: None)

    # --- what happens ---

    def launch(self) -> None:
        experiment = self.random.choice(self.experiments)
        experiment.refresh_from_db()
        for _ in range(self.random.randint(2, 10)):
            Trial.objects.create(experiment=experiment, sequence_id=experiment.next_sequence_id, created_at=self.now,
                                 revision=next_revision(experiment.pk), taught=True,
                                 feasible=False if experiment.outcome_constraints else None)
            experiment.next_sequence_id += 1
        Experiment.objects.filter(pk=experiment.pk).update(next_sequence_id=experiment.next_sequence_id)

    def submit(self) -> None:
        for trial in self._some(Trial.objects.unfinished().without_attempt().filter(target=TrialTarget.RUN), 30):
            number = trial.attempts.count() + 1
            attempt = Attempt.objects.create(trial=trial, number=number, job_name=f"{trial.public_id}r{number}",
                                             stage="submitted", created_at=self.now)
            with transaction.atomic():
                transitions.attempt_started(attempt, self.now, revision=next_revision(trial.experiment_id),
                                            by_keeper=True, target=trial.target)

    def report_and_end(self) -> None:
        for attempt in self._some(Attempt.objects.under_way(), 30):
            value = self.random.choice([None, self.random.gauss(0, 1)])
            end = self.random.choice(sorted(ENDS))
            with transaction.atomic():
                revision = next_revision(attempt.trial.experiment_id)
                Trial.objects.filter(pk=attempt.trial_id).update(
                    final_number=value, final_value=None if value is None else str(value), revision=revision)
                transitions.end_attempt(attempt, TrialEnd(TrialJobStatus(end), "", "succeeded"), self.now,
                                        revision=revision)
            Attempt.objects.filter(pk=attempt.pk).update(end_received_at=self.now)
            if attempt.trial.experiment.outcome_constraints:
                Trial.objects.filter(pk=attempt.trial_id).update(taught=False)

    def requeue(self) -> None:
        for attempt in self._some(Attempt.objects.under_way(), 1):
            with transaction.atomic():
                transitions.attempt_requeued(attempt, self.now, revision=next_revision(attempt.trial.experiment_id),
                                             message="")

    def freeze(self) -> None:
        for attempt in self._some(Attempt.objects.under_way(), 2):
            with transaction.atomic():
                revision = next_revision(attempt.trial.experiment_id)
                transitions.set_targets([attempt.trial], TrialTarget.FROZEN, self.now, revision=revision, reason="")
                transitions.end_attempt(attempt, TrialEnd(TrialJobStatus.WAITING, "", "stopped"), self.now,
                                        revision=revision)

    def thaw(self) -> None:
        for trial in self._some(Trial.objects.filter(target=TrialTarget.FROZEN), 1):
            with transaction.atomic():
                transitions.set_targets([trial], TrialTarget.RUN, self.now, reason="",
                                        revision=next_revision(trial.experiment_id))

    def compare_with_constraints(self) -> None:
        for trial in self._some(Trial.objects.filter(taught=False), 10):
            Trial.objects.filter(pk=trial.pk).update(taught=True, feasible=self.random.random() < 0.5,
                                                     revision=next_revision(trial.experiment_id))

    def fetch_an_old_journal(self) -> None:
        """A result that comes long after the end. What is kept is right again with the next look."""
        for trial in self._some(Trial.objects.filter(status="SUCCEEDED", final_number=None), 1):
            Trial.objects.filter(pk=trial.pk).update(final_number=self.random.gauss(0, 3), final_value="1",
                                                     revision=next_revision(trial.experiment_id))
            self.look()

    def wait(self) -> None:
        self.now += self.random.choice([0.1, 1.2, 3, 40]) * DAY

    def look(self) -> None:
        Experiment.objects.update(look_after_at=None)
        while self.upkeep.look():
            pass

    def delete(self) -> None:
        if len(self.experiments) > 2 and self.random.random() < 0.2:
            experiment = self.experiments.pop()
            Experiment.objects.filter(pk=experiment.pk).update(deleted_at=self.now, look_after_at=None)

    def _some(self, rows: Any, most: int) -> list[Any]:
        keys = list(rows.order_by("pk").values_list("pk", flat=True))
        chosen = self.random.sample(keys, min(len(keys), self.random.randint((most + 1) // 2, most)))
        return list(rows.model._default_manager.filter(pk__in=chosen))

    # --- what is said of it, and what the rows say ---

    def compare(self) -> None:
        keys = [experiment.pk for experiment in self.experiments]
        trials: dict[int, list[Trial]] = {key: [] for key in keys}
        for trial in Trial.objects.filter(experiment__in=keys).only(
                "experiment_id", "sequence_id", "status", "final_number", "feasible").order_by("sequence_id"):
            trials[trial.experiment_id].append(trial)
        assert trial_counts(keys) == {key: Counter(trial.status for trial in trials[key]) for key in keys}
        assert improvements_of(keys, 10**6) == {
            experiment.pk: better(experiment, trials[experiment.pk]) for experiment in self.experiments}
        attempts = list(Attempt.objects.filter(started_at__isnull=False, trial__experiment__in=self.experiments
                                               ).values_list("started_at", "ended_at", "stage",
                                                             "trial__experiment__gpus_of_a_trial"))
        for days in (None, 2, 30):
            found = usage(self.reader, self.now, days=days)
            assert sum(row.gpu_hours for row in found) == pytest.approx(self.gpu_hours(attempts, days)), days

    def gpu_hours(self, attempts: list[tuple[datetime, datetime | None, str, int]], days: int | None) -> float:
        seconds = 0.0
        for begin, ended, stage, gpus in attempts:
            end = ended if stage == "ended" else self.now
            assert end is not None
            begin = begin if days is None else max(begin, self.now - days * DAY)
            seconds += gpus * max(0.0, (end - begin).total_seconds())
        return seconds / 3600


def better(experiment: Experiment, trials: list[Trial]) -> list[tuple[int, float]]:
    sign, best, found = 1 if experiment.optimize_mode == "maximize" else -1, float("-inf"), []
    for trial in trials:
        if trial.status in RESULTS and trial.final_number is not None and trial.feasible is not False \
                and sign * trial.final_number > best:
            best = sign * trial.final_number
            found.append((trial.sequence_id, trial.final_number))
    return found


@pytest.fixture
def make_world(make_experiment: Make, admin: User) -> Callable[[int], World]:
    def make(seed: int) -> World:
        return World([make_experiment(optimize_mode=mode, gpus_of_a_trial=gpus, outcome_constraints=constraints)
                      for mode, gpus, constraints in (("minimize", 2, []), ("maximize", 1, ["latency < 5"]),
                                                      ("maximize", 0, []))], admin, seed)

    return make


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_what_is_kept_is_what_the_rows_say_whatever_happens(make_world: Callable[[int], World], seed: int,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "AT_ONCE", 5)
    monkeypatch.setattr(settling, "MOST_OPEN", 8 * (seed + 1))
    world = make_world(seed)
    happenings = [world.launch, world.launch, *[world.submit] * 3, *[world.report_and_end] * 4, world.requeue,
                  world.freeze, world.thaw, world.compare_with_constraints, world.fetch_an_old_journal,
                  world.wait, world.look, world.look, world.delete]
    seen = Counter[str]()
    for _ in range(80):
        world.random.choice(happenings)()
        world.compare()
        kept = SettledTrials.objects.all()
        seen["trials"] = max(seen["trials"], sum(sum(row.counts.values()) for row in kept))
        seen["open"] = max(seen["open"], sum(len(row.open_trials) for row in kept))
    assert seen["trials"] > 10, seen
    assert seen["open"] > 0, seen
    assert list(differing_experiments()) == []


def test_ended_trials_are_counted_once_and_not_again_by_each_page(make_experiment: Make) -> None:
    experiments = [make_experiment(next_sequence_id=20) for _ in range(2)]
    for experiment in experiments:
        Trial.objects.bulk_create(Trial(
            experiment=experiment, sequence_id=number, public_id=f"t{experiment.pk}n{number}", status="SUCCEEDED",
            final_number=20.0 - number, created_at=NOW, ended_at=NOW) for number in range(20))
    Upkeep(now=lambda: NOW + 3 * DAY, sleep=lambda seconds: None).look()
    [kept] = SettledTrials.objects.all()
    with CaptureQueriesContext(connection) as asked:
        counts = trial_counts([experiment.pk for experiment in experiments])
        found = improvements_of([experiment.pk for experiment in experiments], 3)
    assert [counts[experiment.pk] for experiment in experiments] == [Counter(SUCCEEDED=20)] * 2
    assert [found[experiment.pk] for experiment in experiments] == [[(0, 20.0), (10, 10.0), (19, 1.0)]] * 2
    later = [query["sql"] for query in asked if "sequence_id\" >=" in query["sql"]]
    assert (kept.until, later) == (20, []), "nothing follows what is kept"


def test_it_is_added_up_a_few_trials_at_a_time_and_goes_on_where_it_was_interrupted(
        make_experiment: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "AT_ONCE", 4)
    experiment = make_experiment(next_sequence_id=10)
    Trial.objects.bulk_create(Trial(
        experiment=experiment, sequence_id=number, public_id=f"t{number}", status="FAILED", created_at=NOW,
        ended_at=NOW) for number in range(10))
    looks = iter([False, True])
    assert not settling.settle(experiment, NOW + DAY, Pace(lambda seconds: None), lambda: next(looks))
    assert SettledTrials.objects.get().counts == {"FAILED": 4}
    assert settling.settle(experiment, NOW + DAY, Pace(lambda seconds: None), lambda: False)
    assert (SettledTrials.objects.get().counts, SettledTrials.objects.get().until) == ({"FAILED": 10}, 10)


def test_a_wrong_count_is_named_and_counted_anew(make_experiment: Make, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = make_experiment(next_sequence_id=1)
    Trial.objects.create(experiment=experiment, sequence_id=0, status="FAILED", created_at=NOW, ended_at=NOW)
    upkeep = Upkeep(now=lambda: NOW + 3 * DAY, sleep=lambda seconds: None)
    upkeep.look()
    call_command("recount", check=True)
    assert "agree" in capsys.readouterr().out
    SettledTrials.objects.update(counts={"FAILED": 2})
    with pytest.raises(CommandError, match="without --check"):
        call_command("recount", check=True)
    assert experiment.public_id in capsys.readouterr().out
    call_command("recount")
    assert trial_counts([experiment.pk]) == {experiment.pk: Counter(FAILED=1)}
    upkeep.look()
    assert SettledTrials.objects.get().counts == {"FAILED": 1}
