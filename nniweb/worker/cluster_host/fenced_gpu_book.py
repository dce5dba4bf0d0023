"""Bookings of GPUs that only the holder of a cluster's lease can write."""

from contextlib import suppress

from nniweb.experiments.clusters.gpu_book import AttemptGpuBook
from nniweb.experiments.clusters.lease import Lease, LeaseLost
from nniweb.experiments.sql.idle_connections import give_connection_back


class FencedGpuBook:
    """``trainingservice.gpus.gpu_slots.GpuBook`` for the service of one cluster; called on the platform's own threads.

    To a worker that slept past its lease every GPU is taken, and it frees none.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._book = AttemptGpuBook()

    def booked(self, machine_identity: str) -> dict[str, tuple[int, ...]]:
        try:
            return self._book.booked(machine_identity)
        finally:
            give_connection_back()

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int) -> bool:
        try:
            with self._lease.transaction():
                return self._book.book(machine_identity, job_name, gpu_indices, max_jobs_per_gpu)
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
