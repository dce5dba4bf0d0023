"""Experiments with ``gpuMemory``: what their trials ask of GPUs, when more is known, and when it was too little."""

from collections.abc import Iterator
from typing import Any

import pytest

from nniweb.experiments.clusters.gpu_book import AttemptGpuBook
from nniweb.experiments.memory import estimates
from nniweb.experiments.models import Attempt, Trial, TrialParameters
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.gpus.gpu_slots import GpuBooking
from trainingservice.trial_job import GpuDemand

GB = 1024 ** 3
RAN_OUT: dict[str, Any] = {"memory": "gpu", "by": "text", "line": "CUDA out of memory", "gpu_total": 80 * GB}


@pytest.fixture(autouse=True)
def _no_models() -> Iterator[None]:
    estimates.forget_models()
    yield
    estimates.forget_models()


def submitted(rig: Rig, count: int, **config: Any) -> list[Trial]:
    return rig.submitted(rig.experiment(trial_concurrency=count, max_trial_number=count, config=config), count)


def demand_of(rig: Rig, trial: Trial) -> GpuDemand:
    """What its form says."""
    return rig.service.get_trial_job(Attempt.objects.filter(trial=trial).latest("number").job_name).form.gpu_demand


def test_a_size_in_the_file_is_what_each_trial_asks_for(rig: Rig) -> None:
    [trial] = submitted(rig, 1, gpuMemory=6144)
    assert demand_of(rig, trial) == GpuDemand(memory=6 * GB)


def test_without_it_gpus_are_asked_for_as_a_whole(rig: Rig) -> None:
    [trial] = submitted(rig, 1)
    assert demand_of(rig, trial) == GpuDemand()


def test_a_trial_that_waits_asks_for_less_when_others_have_shown_what_they_need(rig: Rig) -> None:
    trials = submitted(rig, 6, gpuMemory="auto")
    for number, trial in enumerate(trials):
        TrialParameters.objects.filter(trial=trial).update(value={"batch": 8 * 2 ** number})
    waiting, book = trials[-1], AttemptGpuBook()
    known = demand_of(rig, waiting)
    assert known == GpuDemand(learns=True)
    assert book.demand(waiting.public_id, known) == known, "as a whole, at first"
    for number, trial in enumerate(trials[:-1]):
        report(trial, 1.0)
        Attempt.objects.filter(trial=trial).update(gpu_peak=2 ** number * GB)
    estimates.forget_models()
    memory = book.demand(waiting.public_id, known).memory
    assert 30 * GB < memory < 64 * GB  # it needs 32
    assert book.demand(waiting.public_id, known).memory == memory


def test_one_that_was_given_too_little_runs_again_alone_though_no_retry_was_asked_for(rig: Rig) -> None:
    [trial] = submitted(rig, 1, gpuMemory=6144)
    attempt = Attempt.objects.get(trial=trial)
    assert AttemptGpuBook().book_nodes(attempt.job_name, [GpuBooking("m", (0,), 1, False, 6 * GB, (77 * GB,))])
    report(trial, exit_code=1, out_of_memory=RAN_OUT)
    rig.until(lambda: Attempt.objects.filter(trial=trial, number=2, stage="submitted").exists())
    assert demand_of(rig, trial) == GpuDemand(alone=True)
    report(trial, exit_code=1, out_of_memory=RAN_OUT, journal="second")
    trial.refresh_from_db()
    assert (trial.status, trial.reason) == ("FAILED", "out_of_memory")


def test_one_that_shared_nothing_is_not_run_again_unasked(rig: Rig) -> None:
    [trial] = submitted(rig, 1, gpuMemory="auto")
    report(trial, exit_code=1, out_of_memory=RAN_OUT)
    trial.refresh_from_db()
    assert (trial.status, Attempt.objects.filter(trial=trial).count()) == ("FAILED", 1)
