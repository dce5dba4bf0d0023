"""A job that its platform ends and runs again by itself: one attempt, of which nothing is lost and nothing is ended."""

from typing import Any, ClassVar

import pytest

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Trial
from tests.nniweb.worker.conftest import Rig
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus

REASON = "AdaptDL has stopped the trial's replicas and starts it again when there are nodes for it."


class Continuing(DocileTrainingService):
    suspends_jobs: ClassVar[bool] = True
    continues_jobs: ClassVar[bool] = True


@pytest.fixture
def rig(make_rig) -> Rig:
    return make_rig(Continuing)


class Journal:
    """One journal, whatever keeper writes it."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.n, self.sequence = trial, 0, 0

    def tell(self, *entries: dict[str, Any]) -> None:
        numbered = [{"n": self.n + number, "at": float(self.n + number), **entry}
                    for number, entry in enumerate(entries, 1)]
        self.n += len(entries)
        document = read_report({"keeper": {"version": 1, "journal_id": "journal"}, "entries": numbered})
        [answer] = reports.store([Delivery(self.trial.public_id, None, document, reports.received_now())])
        assert answer.status == 200, answer.body

    def results(self, *values: float) -> list[dict[str, Any]]:
        first = self.sequence
        self.sequence += len(values)
        return [{"type": "metric", "kind": "PERIODICAL", "parameter_id": 0, "sequence": first + number,
                 "value": str(value)} for number, value in enumerate(values)]


def started(host: str) -> dict[str, Any]:
    return {"type": "started", "pid": 1, "host": host, "working_directory": "/code"}


def ended(reason: str, code: int) -> dict[str, Any]:
    return {"type": "ended", "exit_code": code, "signal": None, "reason": reason, "message": "", "duration": 2.5}


FINAL = {"type": "metric", "kind": "FINAL", "parameter_id": 0, "sequence": 0, "value": "0.9"}
STOPPED, SUCCEEDED = ended("stopped", 143), ended("exited", 0)


@pytest.fixture
def journal(rig: Rig) -> Journal:
    """Of a trial that has run once, and whose keeper was stopped by something else."""
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    journal = Journal(trial)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    journal.tell(started("node1"), *journal.results(0.1, 0.2), STOPPED)
    return journal


def interrupt(rig: Rig, trial: Trial) -> None:
    rig.service.say(trial.public_id, TrialJobStatus.WAITING, message=REASON, interrupted=True)


def status(trial: Trial) -> str:
    trial.refresh_from_db()
    return trial.status


def test_between_two_runs_a_trial_waits_for_as_long_as_it_takes_and_says_why(rig: Rig, journal: Journal) -> None:
    trial = journal.trial
    interrupt(rig, trial)
    rig.until(lambda: status(trial) == "WAITING")
    assert trial.message == REASON
    rig.skip(3600)
    rig.rounds()
    rig.skip(61)
    rig.rounds()
    assert status(trial) == "WAITING"
    assert (trial.intermediate_count, trial.latest_number) == (2, 0.2)
    assert trial.attempts.get().stage == "submitted"


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_results_of_the_next_run_follow_in_the_same_attempt(rig: Rig, journal: Journal, is_seen: bool) -> None:
    trial = journal.trial
    began = trial.attempts.get().started_at
    if is_seen:
        interrupt(rig, trial)
        rig.until(lambda: status(trial) == "WAITING")
    journal.tell(started("node2"), *journal.results(0.3))
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING, interrupted=False)
    rig.skip(61)
    rig.rounds()
    rig.skip(61)
    rig.rounds()
    assert status(trial) == "RUNNING"
    assert (trial.intermediate_count, trial.attempts.get().started_at) == (3, began)
    journal.tell(FINAL, SUCCEEDED)
    assert status(trial) == "SUCCEEDED"
    attempt = trial.attempts.get()
    assert [metric.sequence for metric in attempt.metrics.filter(kind="PERIODICAL").order_by("n")] == [0, 1, 2]
    assert (trial.final_number, attempt.duration, attempt.exit_code) == (0.9, 2.5, 0)


def test_runs_that_are_reported_together_are_one(rig: Rig) -> None:
    """The server was away for some of them."""
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    journal = Journal(trial)
    journal.tell(started("node1"), *journal.results(0.1), STOPPED, started("node2"), *journal.results(0.2), STOPPED,
                 started("node3"), *journal.results(0.3))
    assert status(trial) == "RUNNING"
    assert (trial.intermediate_count, trial.attempts.get().observed_end) == (3, None)


def test_a_stopped_keepers_successor_is_waited_for_while_the_platform_has_the_job(rig: Rig, journal: Journal) -> None:
    """Other replicas may take minutes to end."""
    for _ in range(4):
        rig.skip(61)
        rig.rounds()
    assert journal.trial.attempts.get().stage == "submitted"


@pytest.mark.parametrize("said", [TrialJobStatus.FAILED, TrialJobStatus.SYS_CANCELED])
def test_a_job_that_the_platform_ends_after_that_has_ended(rig: Rig, journal: Journal, said: TrialJobStatus) -> None:
    rig.service.say(journal.trial.public_id, said, message="The API server refused a pod of the trial.")
    rig.until(lambda: status(journal.trial) == said.value)
    assert journal.trial.message == "The API server refused a pod of the trial."


def test_a_trial_that_is_stopped_between_two_runs_ends_as_wanted(rig: Rig, journal: Journal) -> None:
    trial = journal.trial
    interrupt(rig, trial)
    rig.until(lambda: status(trial) == "WAITING")
    Trial.objects.filter(pk=trial.pk).update(target="USER_CANCELED", message="Stopped by a person.")
    rig.service.say(trial.public_id, TrialJobStatus.USER_CANCELED, interrupted=False)
    rig.until(lambda: status(trial) == "USER_CANCELED")


def test_waiting_between_runs_is_not_counted_as_running(rig: Rig) -> None:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, max_trial_duration=100.0), 1)
    journal = Journal(trial)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    journal.tell(started("node1"), STOPPED)
    rig.rounds()
    interrupt(rig, trial)
    rig.until(lambda: status(trial) == "WAITING")
    for _ in range(3):
        rig.skip(1000)
        rig.rounds()
    trial.refresh_from_db()
    assert (trial.status, trial.target) == ("WAITING", "RUN")
