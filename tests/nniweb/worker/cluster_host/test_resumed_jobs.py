"""What the next service object is told of the trials that the one before had."""

from nniweb.experiments.lifecycle.transitions import attempt_started
from nniweb.experiments.models import Attempt
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
