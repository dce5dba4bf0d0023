"""What an attempt needs of its GPUs, by what became of the earlier attempts of its trial.

One that ran out of GPU memory is followed by one that has its GPUs for itself. If that one runs out, too, the next one
needs larger GPUs.
"""

from nniweb.experiments.models import Attempt
from trainingservice.trial_job import GpuDemand
from trialkeeper import contract


def gpu_demand(attempt: Attempt) -> GpuDemand:
    """For ``JobApplicationForm.gpu_demand``. One question, none for the first attempt of a trial."""
    if attempt.number == 1:
        return GpuDemand()
    earlier = list(Attempt.objects.filter(trial=attempt.trial_id, number__lt=attempt.number,
                                          out_of_memory=contract.GPU_MEMORY).values_list("gpu_alone", "gpu_total"))
    return GpuDemand(alone=bool(earlier),
                     memory_above=max((total or 0 for was_alone, total in earlier if was_alone), default=0))
