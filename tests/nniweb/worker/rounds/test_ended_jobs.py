"""Ended jobs on a platform that keeps them: when they are removed, which of them stay, and what people are told."""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from django.conf import settings
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.actions.change_and_undo import change
from nniweb.experiments.lifecycle.transitions import JOBS_DUE_AFTER
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialOutput
from nniweb.worker.rounds.removal.delete_experiments import PAUSES
from nniweb.worker.supervisor import _busy_clusters
from tests.nniweb.worker.conftest import Rig, end, report
from trainingservice.base import RemovedJobs
from trainingservice.errors import TemporaryError
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus

DUE = JOBS_DUE_AFTER.total_seconds()


class KeepingService(DocileTrainingService):
    """Its jobs stay on the platform until somebody removes them."""

    keeps_ended_jobs: ClassVar[bool] = True
    there: ClassVar[set[str]]
    asked: ClassVar[list[bool]]
    fault: ClassVar[TemporaryError | None]

    def submit_trial_job(self, form: Any) -> Any:
        self.there.add(form.job_name)
        return super().submit_trial_job(form)

    def remove_ended_jobs(self, job_names: Collection[str], *, keep_unsaved: bool) -> RemovedJobs:
        self.asked.append(keep_unsaved)
        if self.fault is not None:
            raise self.fault
        gone = sorted(self.there & set(job_names))[:1]  # one a call
        self.there -= set(gone)
        return RemovedJobs(len(gone), is_through=not self.there & set(job_names))


@pytest.fixture
def rig(make_rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> Rig:
    for name, value in (("there", set()), ("asked", []), ("fault", None)):
        monkeypatch.setattr(KeepingService, name, value, raising=False)
    return make_rig(KeepingService)


def ended_experiment(rig: Rig, trials: int = 2, **fields: Any) -> tuple[Experiment, list[Trial]]:
    """Done, each trial with its end told by its keeper and seen by the platform."""
    experiment = rig.experiment(trial_concurrency=trials, max_trial_number=trials, **fields)
    found = rig.submitted(experiment, trials)
    for trial in found:
        report(trial, 0.5)
        end(rig, trial)
    rig.until(lambda: now_of(experiment).status == "DONE")
    return experiment, found


def now_of(experiment: Experiment) -> Experiment:
    return Experiment.objects.get(pk=experiment.pk)


def said(experiment: Experiment) -> list[str]:
    return list(experiment.events.filter(kind="retention").order_by("pk").values_list("message", flat=True))


def test_jobs_whose_output_the_server_has_go_when_the_experiment_has_ended(rig: Rig) -> None:
    experiment, trials = ended_experiment(rig)
    rig.rounds()
    assert KeepingService.there == {trial.public_id for trial in trials}, "what the platform knows of the end may come"
    rig.skip(DUE + 1)
    rig.until(lambda: not KeepingService.there)
    rig.until(lambda: now_of(experiment).jobs_due_at is None)
    assert now_of(experiment).jobs_removed_at is not None
    assert said(experiment) == ["The jobs of 1 ended trial(s) were removed from the platform."] * 2
    assert set(KeepingService.asked) == {True}
    assert [Trial.objects.get(pk=trial.pk).status for trial in trials] == ["SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("why", ["a gap", "untold", "the limit"])
def test_a_job_whose_output_the_server_has_not_in_full_stays_and_the_events_say_so(rig: Rig, why: str) -> None:
    experiment = rig.experiment(trial_concurrency=2, max_trial_number=2)
    whole, other = rig.submitted(experiment, 2)
    for trial in (whole, other):
        report(trial, 0.5, end=trial is whole or why != "untold")
        end(rig, trial)
    if why == "untold":
        rig.until(lambda: Attempt.objects.get(trial=other).observed_end)
        rig.skip(61)
    attempt = Attempt.objects.get(trial=other)
    if why == "a gap":
        TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=900, data=b"x", skipped=500)
    elif why == "the limit":
        Attempt.objects.filter(pk=attempt.pk).update(stored_bytes=settings.TRIAL_BYTES + 1)
    rig.until(lambda: now_of(experiment).status == "DONE")
    rig.skip(DUE + 1)
    rig.until(lambda: now_of(experiment).jobs_due_at is None)
    assert KeepingService.there == {other.public_id}
    assert said(experiment) == [
        "The jobs of 1 ended trial(s) were removed from the platform. Those of 1 trial(s) are left there if the "
        "platform still has them: their logs or volumes have something that the server does not have. Set "
        "retention.jobs to a number of days to remove them."]
    # as that says
    change(now_of(experiment), {"retention": {"jobs": 1}})
    rig.rounds()
    assert KeepingService.there
    rig.skip(24 * 3600)
    rig.until(lambda: not KeepingService.there)
    assert KeepingService.asked[-1] is False


def test_an_end_that_its_keeper_told_and_the_platform_explained_counts_as_told(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=1, max_trial_number=1)
    [trial] = rig.submitted(experiment, 1)
    report(trial, 0.5, exit_code=1, final=False)
    end(rig, trial, TrialJobStatus.FAILED, message="It had too little memory.")
    rig.until(lambda: now_of(experiment).is_finished)
    rig.skip(DUE + 1)
    rig.until(lambda: not KeepingService.there)


@pytest.mark.parametrize("by", ["the experiment", "the server"])
def test_jobs_stay_for_ever_where_that_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    if by == "the server":
        monkeypatch.setattr(settings, "KEEP_JOBS", "forever")
    experiment, _ = ended_experiment(rig, retention={"jobs": "forever"} if by == "the experiment" else {})
    rig.skip(3600 * 24 * 400)
    rig.until(lambda: now_of(experiment).jobs_due_at is None)
    rig.rounds()
    assert (len(KeepingService.there), KeepingService.asked) == (2, [])


def test_an_experiment_that_goes_on_again_keeps_the_jobs_that_run(rig: Rig) -> None:
    experiment, _ = ended_experiment(rig)
    change(now_of(experiment), {"max_trial_number": 3})
    assert now_of(experiment).jobs_due_at is None
    rig.submitted(experiment, 3)
    rig.skip(DUE + 1)
    rig.rounds()
    assert len(KeepingService.there) == 3


def test_a_platform_that_cannot_do_it_is_asked_again_and_at_last_the_jobs_stay(rig: Rig) -> None:
    experiment, _ = ended_experiment(rig)
    KeepingService.fault = TemporaryError("the cluster is away")
    rig.skip(DUE + 1)
    for tries in range(len(PAUSES)):
        rig.until(lambda: now_of(experiment).cleanup_tries == tries + 1)  # noqa: B023  used within this turn
        rig.rounds()
        assert len(KeepingService.asked) == tries + 1, "not before its pause is over"
        rig.skip(PAUSES[tries] + 1)
    rig.until(lambda: now_of(experiment).jobs_due_at is None)
    assert said(experiment) == [
        "Its ended jobs could not be removed from the platform and stay there: the cluster is away"]
    assert now_of(experiment).jobs_removed_at is None


def test_a_deleted_experiment_has_its_tries_for_itself(rig: Rig) -> None:
    experiment, _ = ended_experiment(rig)
    KeepingService.fault = TemporaryError("the cluster is away")
    rig.skip(DUE + 1)
    rig.until(lambda: now_of(experiment).cleanup_tries)
    intents.delete(now_of(experiment))
    assert now_of(experiment).cleanup_tries == 0
    asked = len(KeepingService.asked)
    rig.skip(PAUSES[0] + 1)
    rig.rounds()
    assert len(KeepingService.asked) == asked


def test_a_platform_that_keeps_no_jobs_is_not_asked(make_rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    rig = make_rig()
    monkeypatch.setattr(DocileTrainingService, "remove_ended_jobs", lambda *_, **__: pytest.fail("it was asked"))
    experiment, _ = ended_experiment(rig)
    rig.skip(DUE + 1)
    rig.until(lambda: now_of(experiment).jobs_due_at is None)
    rig.rounds()
    assert said(experiment) == []


def test_a_cluster_whose_jobs_are_due_has_something_to_do(rig: Rig) -> None:
    experiment, _ = ended_experiment(rig)
    assert not _busy_clusters().exists()
    Experiment.objects.filter(pk=experiment.pk).update(jobs_due_at=timezone.now() - timedelta(seconds=1))
    assert [cluster.pk for cluster in _busy_clusters()] == [rig.cluster.pk]
