"""Bookings of GPUs that only the holder of a cluster's lease can write."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from nniweb.experiments.clusters.gpu_book import AttemptGpuBook
from nniweb.experiments.clusters.lease import Lease, LeaseLost
from nniweb.experiments.sql.idle_connections import give_connection_back
from trainingservice.gpus.gpu_slots import GpuBooking, HeldGpus
from trainingservice.trial_job import GpuDemand


class FencedGpuBook:
    """``trainingservice.gpus.gpu_slots.GpuBook`` for the service of one cluster; called on the platform's own threads.

    To a worker that slept past its lease every GPU is taken, and it frees none.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._book = AttemptGpuBook()

    def booked(self, machine_identity: str) -> dict[str, HeldGpus]:
        try:
            return self._book.booked(machine_identity)
        finally:
            give_connection_back()

    def booked_on(self, machine_identities: Collection[str]) -> dict[str, dict[str, HeldGpus]]:
        try:
            return self._book.booked_on(machine_identities)
        finally:
            give_connection_back()

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int,
             alone: bool = False) -> bool:
        return self.book_nodes(job_name, [GpuBooking(machine_identity, gpu_indices, max_jobs_per_gpu, alone)])

    def book_nodes(self, job_name: str, nodes: Sequence[GpuBooking]) -> bool:
        try:
            with self._lease.transaction():
                return self._book.book_nodes(job_name, nodes)
        except LeaseLost:
            return False
        finally:
            give_connection_back()

    def free(self, job_name: str) -> None:
        try:
            with suppress(LeaseLost), self._lease.transaction():
                self._book.free(job_name)
        finally:
            give_connection_back()

    def demand(self, job_name: str, known: GpuDemand) -> GpuDemand:
        if not known.learns:
            return known
        try:
            return self._book.demand(job_name, known)
        finally:
            give_connection_back()
