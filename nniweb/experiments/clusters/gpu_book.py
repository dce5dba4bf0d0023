"""Bookings of GPUs, CPUs and memory, kept in the rows of unfinished attempts: committed before a start, gone with the
end.
"""

from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import Q

from nniweb.experiments.memory.gpu_demand import demand_now
from nniweb.experiments.models import Attempt, Machine, NodeBooking
from trainingservice.gpus.gpu_slots import GpuBooking, HeldGpus, taken_among
from trainingservice.machine_shares.shares import MachineShare
from trainingservice.trial_job import GpuDemand

_HOLDS_SOMETHING = Q(gpu_indices__isnull=False) | Q(held_cpus__isnull=False) | Q(held_memory__isnull=False)
_UNFINISHED = [Attempt.Stage.SUBMITTING, Attempt.Stage.SUBMITTED]


class AttemptGpuBook:
    """``trainingservice.gpus.gpu_slots.GpuBook`` over all clusters and experiments of the installation."""

    def booked(self, machine_identity: str) -> dict[str, HeldGpus]:
        return self.booked_on([machine_identity])[machine_identity]

    def booked_on(self, machine_identities: Collection[str]) -> dict[str, dict[str, HeldGpus]]:
        of_machines = {"machine_identity__in": list(machine_identities)}
        fields = ("gpu_alone", "gpu_memory", "held_cpus", "held_memory")
        rows = [*Attempt.objects.filter(_HOLDS_SOMETHING, **of_machines, stage__in=_UNFINISHED).values_list(
                    "machine_identity", "job_name", "gpu_indices", *fields),
                *NodeBooking.objects.filter(**of_machines, attempt__stage__in=_UNFINISHED).values_list(
                    "machine_identity", "attempt__job_name", "gpu_indices", *(f"attempt__{field}" for field in fields))]
        found: dict[str, dict[str, HeldGpus]] = {identity: {} for identity in machine_identities}
        for identity, job_name, indices, alone, memory, cpus, main_memory in rows:
            held = found[identity]
            before = held.get(job_name, HeldGpus())
            share = MachineShare(before.share.cpus + (cpus or 0.0), before.share.memory + (main_memory or 0))
            held[job_name] = HeldGpus((*before, *(indices or ())), bool(alone), memory or 0, share)
        return found

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int,
             alone: bool = False) -> bool:
        return self.book_nodes(job_name, [GpuBooking(machine_identity, gpu_indices, max_jobs_per_gpu, alone)])

    def book_nodes(self, job_name: str, nodes: Sequence[GpuBooking]) -> bool:
        with transaction.atomic():
            # the rows of the machines are written first, in one order: bookings of one machine then wait for
            # each other on every database, and the check below sees each one committed before
            for identity in sorted({node.machine_identity for node in nodes}):
                Machine.objects.filter(identity=identity).update(identity=identity)
            first, *others = nodes
            unfinished = Attempt.objects.filter(job_name=job_name).exclude(stage=Attempt.Stage.ENDED)
            if not unfinished.update(machine_identity=first.machine_identity,
                                     gpu_indices=list(first.gpu_indices) or None, gpu_alone=first.alone or None,
                                     gpu_memory=first.memory or None, held_cpus=first.share.cpus or None,
                                     held_memory=first.share.memory or None):
                return False
            if others:
                attempt = unfinished.get()
                NodeBooking.objects.filter(attempt=attempt).delete()
                NodeBooking.objects.bulk_create(
                    NodeBooking(attempt=attempt, rank=rank, machine_identity=node.machine_identity,
                                gpu_indices=list(node.gpu_indices)) for rank, node in enumerate(others, 1))
            if taken_among(nodes, lambda identity: [held for name, held in self.booked(identity).items()
                                                    if name != job_name]):
                transaction.set_rollback(True)
                return False
        return True

    def free(self, job_name: str) -> None:
        if Attempt.objects.filter(_HOLDS_SOMETHING, job_name=job_name).exclude(
                stage=Attempt.Stage.ENDED).update(machine_identity=""):
            NodeBooking.objects.filter(attempt__job_name=job_name).delete()

    def demand(self, job_name: str, known: GpuDemand) -> GpuDemand:
        return demand_now(job_name, known)
