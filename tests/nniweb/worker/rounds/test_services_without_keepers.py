"""Services in NNI's style: their listener is the only way home, and their word ends a trial."""

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

import pytest
from django.db import OperationalError

from nniweb.experiments.actions import intents
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TunerEvent
from nniweb.worker.cluster_host import metric_inbox
from nniweb.worker.rounds.observing import observe_trials
from trainingservice.base import ServiceContext, TrainingService
from trainingservice.cluster_settings import ClusterSettings
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import ResumedJob, TrialJobMetric
from trainingservice.trial_job_status import TrialJobStatus


@pytest.fixture(autouse=True)
def services_are_asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe_trials, "FULL_LOOK_SECONDS_WITHOUT_KEEPERS", 0.1)


class EmittingService(DocileTrainingService):
    """Tells its metrics itself, and rings for nothing."""

    keepers_report: ClassVar[bool] = False

    def __init__(self, settings: ClusterSettings, context: ServiceContext) -> None:
        super().__init__(settings, replace(context, on_change=lambda job_name: None))

    def tell(self, job_name: str, *values: float, final: float | None = None, first: int = 0) -> None:
        for sequence, value in enumerate(values, first):
            self.emit(TrialJobMetric(job_name, text(value, sequence)))
        if final is not None:
            self.emit(TrialJobMetric(job_name, text(final, 0, "FINAL")))


class ForgetfulService(EmittingService):
    """As NNI's, its jobs end with the object: the additions to the interface are the base class's."""

    resume_trial_jobs = TrainingService.resume_trial_jobs
    forget_trial_jobs = TrainingService.forget_trial_jobs


class RereadingService(EmittingService):
    """Of each job that it takes over it reads all metrics once more."""

    log: ClassVar[dict[str, list[float]]] = {}

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        super().resume_trial_jobs(jobs)
        for job in jobs:
            self.tell(job.detail.id, *self.log.get(job.detail.id, []))


def text(value: Any, sequence: int, kind: str = "PERIODICAL") -> str:
    return json.dumps({"parameter_id": 0, "trial_job_id": "x", "type": kind, "sequence": sequence,
                       "value": json.dumps(value)})


def status(trial: Trial) -> str:
    return Trial.objects.get(pk=trial.pk).status


def test_results_reach_the_tuner_and_the_services_word_ends_the_trial_at_once(make_rig) -> None:
    rig = make_rig(EmittingService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.service.tell(trial.public_id, 0.5, 0.4, final=0.25)
    rig.until(lambda: status(trial) == "RUNNING")
    rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
    rig.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    trial.refresh_from_db()
    assert (trial.status, trial.final_number, trial.intermediate_count) == ("SUCCEEDED", 0.25, 2)
    assert rig.offset == 0, "no keeper is waited for"
    told = [event.data for event in TunerEvent.objects.filter(experiment=experiment).order_by("number")]
    assert any("0.25" in json.dumps(data) for data in told), told


def test_a_final_result_alone_ends_nothing(make_rig) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.service.tell(trial.public_id, final=0.25)
    rig.until(lambda: Trial.objects.get(pk=trial.pk).final_number == 0.25 and status(trial) == "RUNNING")
    rig.skip(300)
    rig.rounds()
    assert status(trial) == "RUNNING"


def test_what_is_emitted_before_the_end_is_there_before_it_however_much_it_is(make_rig, monkeypatch) -> None:
    monkeypatch.setattr(metric_inbox.MetricInbox, "_start", lambda self: None)  # rounds alone store
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    rig.service.tell(trial.public_id, *[float(index) for index in range(3000)], final=7.0)
    rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
    seen: list[int] = []
    told = observe_trials.end_attempt

    def counted(*arguments: Any, **named: Any) -> bool:
        seen.append(Metric.objects.count())
        return told(*arguments, **named)

    monkeypatch.setattr(observe_trials, "end_attempt", counted)
    rig.until(lambda: status(trial) == "SUCCEEDED")
    assert seen == [3001]
    assert list(Metric.objects.order_by("n").values_list("number", flat=True)) == [*map(float, range(3000)), 7.0]


def test_a_final_result_that_comes_after_the_end_is_waited_for_and_counts(make_rig) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1), 1)
    rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
    rig.until(lambda: Attempt.objects.get().observed_end)
    rig.rounds()
    assert status(trial) != "SUCCEEDED"
    rig.service.tell(trial.public_id, final=0.125)
    rig.until(lambda: status(trial) == "SUCCEEDED")
    assert rig.offset == 0
    assert Trial.objects.get().final_number == 0.125


def test_a_trial_without_a_final_result_ends_a_few_seconds_later_and_a_failed_one_at_once(make_rig) -> None:
    rig = make_rig(EmittingService)
    silent, failed = rig.submitted(rig.experiment(trial_concurrency=2, max_trial_number=2), 2)
    rig.service.say(silent.public_id, TrialJobStatus.SUCCEEDED)
    rig.service.say(failed.public_id, TrialJobStatus.FAILED, exit_code=3, message="It printed: no data.")
    rig.until(lambda: status(failed) == "FAILED" and Attempt.objects.get(trial=silent).observed_end)
    assert (Attempt.objects.get(trial=failed).exit_code, Attempt.objects.get(trial=failed).end_reason) == (3, "exited")
    assert Trial.objects.get(pk=failed.pk).message == "It printed: no data."
    assert status(silent) != "SUCCEEDED"
    rig.skip(observe_trials.FINAL_RESULT_SECONDS)
    rig.until(lambda: status(silent) == "SUCCEEDED")
    ended: datetime | None = Trial.objects.get(pk=silent.pk).ended_at
    began = Trial.objects.get(pk=failed.pk).ended_at
    assert ended is not None
    assert began is not None
    assert abs((ended - began).total_seconds()) < 4, "the wait is no part of its time"


@pytest.mark.parametrize("early", [False, True])
def test_a_stop_reaches_the_service_and_its_word_ends_the_trial(make_rig, early: bool) -> None:
    rig = make_rig(EmittingService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_duration=10.0 if early else None)
    [trial] = rig.submitted(experiment, 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: status(trial) == "RUNNING")
    if early:
        rig.rounds()
        rig.skip(11)
    else:
        intents.cancel_trial(Trial.objects.get(pk=trial.pk))
    rig.until(lambda: status(trial) == ("EARLY_STOPPED" if early else "USER_CANCELED"))


def test_trials_whose_jobs_were_lost_with_their_service_end_and_say_so(make_rig) -> None:
    rig = make_rig(ForgetfulService)
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2)
    running, waiting = rig.submitted(experiment, 2)
    rig.service.say(running.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: status(running) == "RUNNING")
    rig.runner._close()
    rig.runner = rig.new_runner("worker-2")
    rig.until(lambda: status(running) == "FAILED")
    row = Trial.objects.get(pk=running.pk)
    assert row.reason == "end_unknown"
    assert "no longer has the trial's job" in row.message
    rig.until(lambda: [job.id for job in rig.service.list_trial_jobs()] == [waiting.public_id])
    assert status(waiting) == "WAITING"


def test_a_job_that_is_listed_for_ever_is_looked_at_until_its_end_is_written(make_rig, monkeypatch) -> None:
    rig = make_rig(ForgetfulService)
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=3)
    for number in range(3):
        trial = rig.submitted(experiment, number + 1)[number]
        rig.service.tell(trial.public_id, final=0.5)
        rig.service.say(trial.public_id, TrialJobStatus.SUCCEEDED)
        rig.until(lambda: status(trial) == "SUCCEEDED")  # noqa: B023  # used within this turn
    looked_at: list[int] = []
    looked = observe_trials._looked_at
    monkeypatch.setattr(observe_trials, "_looked_at",
                        lambda names, explained: looked_at.append(len(names)) or looked(names, explained))
    for _ in range(3):
        rig.skip(2)
        rig.rounds(1)
    assert len(rig.service.list_trial_jobs()) == 3
    assert looked_at[1:] == []


def test_a_service_that_reads_its_metrics_again_after_a_restart_doubles_nothing(make_rig, monkeypatch) -> None:
    rig = make_rig(RereadingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    rig.service.say(trial.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: status(trial) == "RUNNING")
    rig.service.tell(trial.public_id, 0.5, 0.4)
    rig.until(lambda: Metric.objects.count() == 2)
    monkeypatch.setitem(RereadingService.log, trial.public_id, [0.5, 0.4, 0.3])
    rig.runner._close()
    rig.runner = rig.new_runner("worker-2")
    rig.until(lambda: Metric.objects.count() == 3)
    assert list(Metric.objects.order_by("n").values_list("n", "number")) == [
        (2**52 + 1, 0.5), (2**52 + 2, 0.4), (2**52 + 3, 0.3)]
    assert (status(trial), Trial.objects.get().intermediate_count) == ("RUNNING", 3)


def test_what_cannot_be_read_is_logged_once_for_a_job_and_the_rest_is_kept(make_rig, caplog) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    name = trial.public_id
    with caplog.at_level(logging.WARNING):
        for metric in (TrialJobMetric(name, "no JSON"), TrialJobMetric(name, "still none"), TrialJobMetric(name, None),
                       "no metric at all", TrialJobMetric("nobody", text(1, 0)), TrialJobMetric("nobody", text(2, 1)),
                       TrialJobMetric(name, text(0.5, 0))):
            rig.service.emit(metric)
        rig.until(lambda: Metric.objects.count() == 1)
        rig.rounds()
    said = [record.getMessage() for record in caplog.records]
    assert sum("cannot be read" in line for line in said) == 1
    assert any("trial 0: a metric" in line and 'not JSON: "no JSON"' in line for line in said)
    assert sum("'nobody', which does not belong to this cluster" in line for line in said) == 1
    assert Metric.objects.get().number == 0.5


def test_many_threads_emit_at_once_and_nothing_is_lost_or_doubled(make_rig) -> None:
    rig = make_rig(EmittingService)
    trials = rig.submitted(rig.experiment(trial_concurrency=4), 4)
    threads = [threading.Thread(target=rig.service.tell, args=[trial.public_id, *map(float, range(400))])
               for trial in trials]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    rig.until(lambda: Metric.objects.count() == 1600)
    for trial in trials:
        assert list(Metric.objects.filter(attempt__trial=trial).order_by("n").values_list("number", flat=True)) == [
            *map(float, range(400))]


def test_thousands_of_metrics_take_few_transactions(make_rig, monkeypatch) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    groups: list[int] = []
    store = metric_inbox.store_heard
    monkeypatch.setattr(metric_inbox, "store_heard",
                        lambda heard, *more: groups.append(len(heard)) or store(heard, *more))
    monkeypatch.setattr(metric_inbox.MetricInbox, "_start", lambda self: None)
    rig.service.tell(trial.public_id, *map(float, range(5000)))
    rig.until(lambda: Metric.objects.count() == 5000)
    assert groups == [metric_inbox.MOST_AT_ONCE] * 10


def test_who_emits_more_than_can_wait_waits_until_it_is_stored(make_rig, monkeypatch) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    monkeypatch.setattr(metric_inbox, "MOST_WAITING", 10)
    away, tried = threading.Event(), threading.Event()
    store = metric_inbox.store_heard

    def store_unless_away(*arguments: Any) -> Any:
        if not away.is_set():
            tried.set()
            raise OperationalError("database or disk is full")
        return store(*arguments)

    monkeypatch.setattr(metric_inbox, "store_heard", store_unless_away)
    monkeypatch.setattr(metric_inbox, "PAUSE", 0.01)
    emitting = threading.Thread(target=rig.service.tell, args=[trial.public_id, *map(float, range(100))])
    emitting.start()
    assert tried.wait(60)
    emitting.join(0.5)
    assert emitting.is_alive()
    assert Metric.objects.count() == 0
    away.set()
    emitting.join(60)
    rig.until(lambda: Metric.objects.count() == 100)


def test_a_metric_that_the_database_refuses_costs_no_other(make_rig, monkeypatch, caplog) -> None:
    from django.db import DataError

    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    store = metric_inbox.store_heard

    def refuse(heard: Any, *more: Any) -> Any:
        if any(metric.entry["value"] == "3.0" for metric in heard):
            raise DataError("out of range")
        return store(heard, *more)

    monkeypatch.setattr(metric_inbox, "store_heard", refuse)
    rig.service.tell(trial.public_id, *map(float, range(10)))
    rig.until(lambda: Metric.objects.count() == 9)
    assert 3.0 not in Metric.objects.values_list("number", flat=True)


def test_what_waits_when_a_worker_ends_is_stored(make_rig, monkeypatch) -> None:
    monkeypatch.setattr(metric_inbox.MetricInbox, "_start", lambda self: None)
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    service = rig.service
    service.tell(trial.public_id, 0.5)
    rig.runner._close()
    assert Metric.objects.count() == 1
    service.tell(trial.public_id, 0.5, 0.25)
    assert Metric.objects.count() == 1, "nobody listens any more"
    rig.runner = rig.new_runner("worker-2")


@pytest.mark.parametrize("name", ["\ud800", "a\x00b", "x" * 10_000])
def test_a_metric_of_a_job_that_no_server_names_so_costs_no_other(make_rig, caplog, name: str) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    rig.service.tell(trial.public_id, 0.5)
    rig.service.tell(name, 1.0)
    rig.service.tell(trial.public_id, 0.25, first=1)
    rig.until(lambda: Metric.objects.count() == 2)
    rig.rounds()
    assert sum("does not belong to this cluster" in record.getMessage() for record in caplog.records) == 1


def test_a_metric_that_cannot_be_stored_for_whatever_reason_costs_no_other(make_rig, monkeypatch) -> None:
    rig = make_rig(EmittingService)
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1), 1)
    store = metric_inbox.store_heard

    def refuse(heard: Any, *more: Any) -> Any:
        if any(metric.entry["value"] == "3.0" for metric in heard):
            raise UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates not allowed")
        return store(heard, *more)

    monkeypatch.setattr(metric_inbox, "store_heard", refuse)
    rig.service.tell(trial.public_id, *map(float, range(10)))
    rig.until(lambda: Metric.objects.count() == 9)
    rig.service.tell(trial.public_id, 11.0, first=11)
    rig.until(lambda: Metric.objects.count() == 10)


def test_texts_and_exit_codes_that_no_database_takes_are_stored_as_far_as_they_can_be(make_rig) -> None:
    rig = make_rig(EmittingService)
    failed, other = rig.submitted(rig.experiment(trial_concurrency=2, max_trial_number=2), 2)
    bad = "a\x00\ud800b"
    rig.service.say(failed.public_id, TrialJobStatus.RUNNING, url=bad, working_directory=bad, machine=bad * 100,
                    platform_state={"text": bad}, message=bad)
    rig.until(lambda: status(failed) == "RUNNING")
    rig.service.say(failed.public_id, TrialJobStatus.FAILED, message=bad, cause=bad, exit_code=2**80)
    rig.until(lambda: status(failed) == "FAILED")
    attempt = Attempt.objects.get(trial=failed)
    assert (attempt.url, attempt.platform_state, attempt.exit_code) == (
        "a\u2400\\ud800b", {"text": "a\ufffd\ufffdb"}, None)
    rig.service.say(other.public_id, TrialJobStatus.RUNNING)
    rig.until(lambda: status(other) == "RUNNING")
