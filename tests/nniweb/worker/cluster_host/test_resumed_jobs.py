"""What the next service object is told of the trials that the one before had."""

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.lifecycle.transitions import attempt_started
from nniweb.experiments.models import Attempt, Checkpoint
from nniweb.worker.cluster_host.resumed_jobs import resumed_jobs, submit_unseen_again
from tests.nniweb.worker.conftest import Rig


def test_a_trial_that_only_waited_in_the_last_object_s_memory_is_submitted_again(rig: Rig) -> None:
    experiment = rig.experiment(trial_concurrency=2)
    waiting, running = rig.submitted(experiment, 2)
    started = Attempt.objects.get(trial=running)
    attempt_started(started, rig.runner.work.now(), revision=0, by_keeper=False, target="RUN")
    submit_unseen_again(experiment.cluster_id)
    told = {job.detail.id: job.submitted for job in resumed_jobs(experiment.cluster_id)}
    assert told == {Attempt.objects.get(trial=waiting).job_name: False, started.job_name: True}
    rig.until(lambda: Attempt.objects.filter(stage=Attempt.Stage.SUBMITTED).count() == 2)
    assert rig.service.calls.count("submit_trial_job") == 3


def test_taking_over_many_trials_asks_the_database_no_more_often_than_for_few_and_knows_their_checkpoints(
        make_attempt: Callable[..., Attempt]) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            resumed_jobs(first.cluster_id)
        return len(queries)

    first = make_attempt(status="RUNNING")
    Attempt.objects.update(journal_id="j")
    for_one = asked()
    others = [make_attempt(first.trial.experiment, status="RUNNING") for _ in range(5)]
    Attempt.objects.update(journal_id="j")
    assert asked() == for_one
    Checkpoint.objects.create(attempt=others[0], trial=others[0].trial, manifest="a" * 64, name="step-1", size=1, k=1,
                              file_count=1, created_at=timezone.now(), stored_at=timezone.now(),
                              confirmed_at=timezone.now(), confirmed_n=2)
    saved = {job.detail.id: [one["name"] for one in (job.detail.form.checkpoints or {"resume": []})["resume"]]
             for job in resumed_jobs(first.cluster_id)}
    assert saved == {**{attempt.job_name: [] for attempt in (first, *others)}, others[0].job_name: ["step-1"]}
