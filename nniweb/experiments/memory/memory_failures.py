"""Attempts that ran out of memory: what is kept of them, and whether another one could fare better.

What the next one gets for it is in ``nniweb.experiments.memory.gpu_demand``.
"""

from typing import Any

from nniweb.experiments.models import Attempt, ExperimentCluster, Machine
from trainingservice.keeper.out_of_memory import gpu_total_of, memory_that_ran_out
from trialkeeper import contract


def memory_columns(attempt: Attempt, message: str) -> dict[str, Any]:
    """Columns of an attempt that ended with this message; none where it did not run out of memory."""
    memory = memory_that_ran_out(message)
    if not memory:
        return {}
    total = gpu_total_of(message) if memory == contract.GPU_MEMORY else None
    return {"out_of_memory": memory,
            "gpu_total": total or (_total_of_its_gpus(attempt) if memory == contract.GPU_MEMORY else None)}


def would_run_out_again(attempt: Attempt, message: str) -> bool:
    """Whether an attempt that ended with this message had the largest GPU that is known of for itself.

    Machines that nobody has looked at, and platforms that do not tell of their GPUs, may have larger ones.
    """
    if memory_that_ran_out(message) != contract.GPU_MEMORY:
        return False
    alone, total = Attempt.objects.filter(pk=attempt.pk).values_list("gpu_alone", "gpu_total").get()
    if not alone or not total:
        return False
    clusters = {attempt.runs_on.pk, *ExperimentCluster.objects.filter(
        experiment=attempt.trial.experiment_id).values_list("cluster", flat=True)}
    sizes = [gpu.get("memory_total") for summary in Machine.objects.filter(cluster__in=clusters).values_list(
        "gpu_summary", flat=True) for gpu in summary]
    return bool(sizes) and all(size is not None and size <= total for size in sizes)


def _total_of_its_gpus(attempt: Attempt) -> int | None:
    """By what its machine said last of its GPUs."""
    indices = attempt.gpu_indices or ()
    summaries = Machine.objects.filter(identity=attempt.machine_identity).values_list("gpu_summary", flat=True) \
        if indices and attempt.machine_identity else ()
    sizes = [gpu["memory_total"] for summary in summaries for gpu in summary
             if gpu.get("index") in indices and gpu.get("memory_total")]
    return min(sizes, default=None)
