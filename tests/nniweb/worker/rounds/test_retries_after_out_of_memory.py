"""Trials that ran out of memory: what they say, how they are run again, and when the tuner hears of it."""

from typing import Any

import pytest

from nniweb.experiments.memory.gpu_demand import gpu_demand
from nniweb.experiments.models import Attempt, Experiment, Machine, Trial, TunerEvent
from nniweb.experiments.queries.trial_advice import advice_for
from nniweb.worker.rounds.failed_trials import results_of
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.reasons import Reason
from trainingservice.trial_job import GpuDemand
from trainingservice.trial_job_status import TrialJobStatus

GB = 1024 ** 3
LINE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
GPU: dict[str, Any] = {"memory": "gpu", "by": "text", "line": LINE, "gpu_total": 16 * GB}
MAIN: dict[str, Any] = {"memory": "main", "by": "kernel", "line": "", "gpu_total": None}


def one_trial(rig: Rig, **fields: Any) -> Trial:
    [trial] = rig.submitted(rig.experiment(trial_concurrency=1, max_trial_number=1, **fields), 1)
    return trial


def attempt_of(rig: Rig, trial: Trial, number: int) -> Attempt:
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=number, stage="submitted").exists())
    return Attempt.objects.get(trial=trial, number=number)


def tells(trial: Trial) -> int:
    return TunerEvent.objects.filter(experiment=trial.experiment_id, data__event="tell").count()


def has_larger_gpu(rig: Rig, *sizes: int) -> None:
    Machine.objects.update_or_create(cluster=rig.cluster, name="box", defaults={
        "identity": "box", "gpu_summary": [{"index": n, "memory_total": size} for n, size in enumerate(sizes)]})


def test_the_reason_says_which_memory_ran_out_and_what_the_trial_wrote(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, exit_code=1, out_of_memory=GPU)
    trial.refresh_from_db()
    assert (trial.status, trial.reason) == ("FAILED", "out_of_memory")
    assert (trial.reason_arguments["memory"], trial.reason_arguments["line"]) == ("gpu", LINE)
    assert trial.message == f"The trial ran out of GPU memory (its GPU has 16.0 GB). It wrote: {LINE}"
    [advice] = advice_for(trial.pk, trial.ended_at)
    assert "retry: {onOutOfMemory: 1}" in advice.message


def test_the_kernels_kill_is_a_reason_of_its_own(rig: Rig) -> None:
    trial = one_trial(rig)
    report(trial, exit_code=137, out_of_memory=MAIN)
    trial.refresh_from_db()
    assert (trial.reason, trial.reason_arguments["memory"]) == ("out_of_memory", "main")
    assert "the kernel killed it" in trial.message


def test_it_is_run_again_alone_then_on_a_larger_gpu_and_then_the_tuner_is_told(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onOutOfMemory": 2}, failed_trials={"tellTuner": 7.5})
    has_larger_gpu(rig, 16 * GB, 80 * GB)
    report(trial, exit_code=1, out_of_memory=GPU)
    trial.refresh_from_db()
    assert trial.message.endswith("The trial is run again (1 of 2).")
    second = attempt_of(rig, trial, 2)
    assert gpu_demand(second) == GpuDemand(alone=True)
    assert rig.service.get_trial_job(second.job_name).form.gpu_demand == GpuDemand(alone=True)
    Attempt.objects.filter(pk=second.pk).update(gpu_alone=True)  # as the service books it
    report(trial, exit_code=1, out_of_memory=GPU, journal="second")
    third = attempt_of(rig, trial, 3)
    assert gpu_demand(third) == GpuDemand(alone=True, memory_above=16 * GB)
    assert tells(trial) == 0
    report(trial, exit_code=1, out_of_memory=GPU | {"gpu_total": 80 * GB}, journal="third")
    rig.until(lambda: tells(trial) == 1)
    trial.refresh_from_db()
    assert (trial.status, trial.reason) == ("FAILED", "out_of_memory")
    assert results_of(Experiment.objects.get(pk=trial.experiment_id), [trial]) == {trial.pk: [7.5]}


def test_where_no_gpu_is_larger_it_is_not_run_again_after_it_was_alone(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onOutOfMemory": 5})
    has_larger_gpu(rig, 16 * GB, 12 * GB)
    report(trial, exit_code=1, out_of_memory=GPU)
    second = attempt_of(rig, trial, 2)
    Attempt.objects.filter(pk=second.pk).update(gpu_alone=True)
    report(trial, exit_code=1, out_of_memory=GPU, journal="second")
    trial.refresh_from_db()
    assert (trial.status, trial.reason) == ("FAILED", "out_of_memory")


def test_the_size_of_its_gpu_is_known_from_its_machine_where_the_keeper_does_not_tell_it(rig: Rig) -> None:
    trial = one_trial(rig)
    has_larger_gpu(rig, 24 * GB, 80 * GB)
    Attempt.objects.filter(trial=trial).update(machine_identity="box", gpu_indices=[0])
    report(trial, exit_code=1, out_of_memory=GPU | {"gpu_total": None})
    assert Attempt.objects.get(trial=trial).gpu_total == 24 * GB


@pytest.mark.parametrize(("retry", "attempts"), [
    ({"onFailure": 1}, 2), ({"onPlatformFailure": 1}, 1), ({"onFailure": 5, "onOutOfMemory": 0}, 1)])
def test_without_a_count_of_its_own_it_counts_as_the_failure_that_it_is(
        rig: Rig, retry: dict[str, int], attempts: int) -> None:
    trial = one_trial(rig, retry=retry)
    report(trial, exit_code=1, out_of_memory=MAIN)
    if attempts == 2:
        attempt_of(rig, trial, 2)
    assert Attempt.objects.filter(trial=trial).count() == attempts


def test_other_failures_are_not_counted_with_it(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onFailure": 1, "onOutOfMemory": 1})
    report(trial, exit_code=1, out_of_memory=MAIN)
    attempt_of(rig, trial, 2)
    report(trial, exit_code=1, journal="second")
    attempt_of(rig, trial, 3)
    report(trial, exit_code=1, out_of_memory=MAIN, journal="third")
    trial.refresh_from_db()
    assert (trial.status, Attempt.objects.filter(trial=trial).count()) == ("FAILED", 3)


def test_a_pod_that_the_kubelet_calls_oomkilled_is_run_again_for_it(rig: Rig) -> None:
    trial = one_trial(rig, retry={"onOutOfMemory": 1})
    rig.service.say(trial.public_id, TrialJobStatus.FAILED, message=Reason(
        "out_of_memory", said="OOMKilled: pod x was killed.", platform="Kubernetes", cause="OOMKilled"))
    rig.rounds()
    rig.skip(61)
    second = attempt_of(rig, trial, 2)
    assert Attempt.objects.get(trial=trial, number=1).out_of_memory == "main"
    assert gpu_demand(second) == GpuDemand(), "the memory of GPUs is another one"
