"""Bookings of GPUs, kept in the rows of unfinished attempts: committed before a start, gone with the end."""

from django.db import transaction
from django.db.models import QuerySet

from nniweb.experiments.models import Attempt, Machine


class AttemptGpuBook:
    """``trainingservice.gpus.gpu_slots.GpuBook`` over all clusters and experiments of the installation."""

    def booked(self, machine_identity: str) -> dict[str, tuple[int, ...]]:
        rows = self._holding(machine_identity).values_list("job_name", "gpu_indices")
        return {job_name: tuple(indices or ()) for job_name, indices in rows}

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int) -> bool:
        with transaction.atomic():
            # the rows of the machine are written first: bookings of one machine then wait for each
            # other on every database, and the check below sees each one committed before
            Machine.objects.filter(identity=machine_identity).update(identity=machine_identity)
            if not Attempt.objects.filter(job_name=job_name).exclude(stage=Attempt.Stage.ENDED).update(
                    machine_identity=machine_identity, gpu_indices=list(gpu_indices)):
                return False
            others = [set(indices or ()) for name, indices in
                      self._holding(machine_identity).values_list("job_name", "gpu_indices") if name != job_name]
            if any(sum(index in held for held in others) >= max_jobs_per_gpu for index in gpu_indices):
                transaction.set_rollback(True)
                return False
        return True

    def free(self, job_name: str) -> None:
        Attempt.objects.filter(job_name=job_name, gpu_indices__isnull=False).exclude(
            stage=Attempt.Stage.ENDED).update(machine_identity="")

    @staticmethod
    def _holding(machine_identity: str) -> QuerySet[Attempt]:
        return Attempt.objects.filter(machine_identity=machine_identity, gpu_indices__isnull=False,
                                      stage__in=[Attempt.Stage.SUBMITTING, Attempt.Stage.SUBMITTED])
