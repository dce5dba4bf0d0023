"""What an attempt needs of its GPUs: by the experiment's ``gpuMemory``, by what became of the earlier attempts of its
trial, and by what other trials needed.

An attempt that ran out of GPU memory is followed by one that has its GPUs for itself. If that one runs out, too, the
next one needs larger GPUs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nniweb.experiments.memory.estimates import model_of
from nniweb.experiments.memory.predictor import MemoryModel
from nniweb.experiments.models import Attempt, TrialParameters
from trainingservice.trial_job import GpuDemand
from trialkeeper import contract

#: Key of an experiment's config, and what it says there besides a number of megabytes; left out: GPUs as a whole.
GPU_MEMORY, AUTO = "gpuMemory", "auto"
#: Waiting jobs of which is known what they asked last.
_MOST_KNOWN = 20_000
#: Job -> (experiment, parameters), and the last answer: (by which model, what it said).
_jobs: OrderedDict[str, tuple[int, Any]] = OrderedDict()
_answers: OrderedDict[str, tuple[MemoryModel, GpuDemand]] = OrderedDict()


def gpu_demand(attempt: Attempt) -> GpuDemand:
    """For ``JobApplicationForm.gpu_demand``. One question, none for the first attempt of a trial."""
    earlier = [] if attempt.number == 1 else list(Attempt.objects.filter(
        trial=attempt.trial_id, number__lt=attempt.number, out_of_memory=contract.GPU_MEMORY).values_list(
        "gpu_alone", "gpu_total"))
    if earlier:
        return GpuDemand(alone=True, memory_above=max((total or 0 for alone, total in earlier if alone), default=0))
    asked = attempt.trial.experiment.config.get(GPU_MEMORY)
    if asked == AUTO:
        return GpuDemand(learns=True)
    return GpuDemand(memory=asked * 1024 ** 2) if isinstance(asked, int) else GpuDemand()


def demand_now(job_name: str, known: GpuDemand) -> GpuDemand:
    """``known`` with what is learnt by now. A question for a new job, and one for an experiment from time to time."""
    if not known.learns:
        return known
    job = _jobs.get(job_name)
    if job is None:
        row = Attempt.objects.filter(job_name=job_name).values_list("trial__experiment", "trial").first()
        if row is None:
            return known
        value = TrialParameters.objects.filter(trial=row[1], index=0).values_list("value", flat=True).first()
        job = _jobs[job_name] = row[0], value
        _forget_oldest(_jobs)
    model = model_of(job[0])
    if model is None:
        return known
    answer = _answers.get(job_name)
    if answer is None or answer[0] is not model:
        parameters: Mapping[str, Any] = job[1] if isinstance(job[1], dict) else {}
        answer = _answers[job_name] = model, replace(known, memory=model.predict(parameters).upper)
        _forget_oldest(_answers)
    return answer[1]


def _forget_oldest(known: OrderedDict[str, Any]) -> None:
    while len(known) > _MOST_KNOWN:
        known.popitem(last=False)
