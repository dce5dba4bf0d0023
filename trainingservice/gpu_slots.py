"""Which GPUs a trial gets, and why it gets none."""

from __future__ import annotations

import threading
from typing import Protocol


class GpuBook(Protocol):
    """Who holds which GPUs of which machine, over all clusters and experiments of an installation."""

    def booked(self, machine_identity: str) -> dict[str, tuple[int, ...]]:
        """Job name -> GPU indices it holds on that machine."""

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int) -> bool:
        """Hold these GPUs for a job; durable when it returns True.

        False, and nothing changes, if any of them already has ``max_jobs_per_gpu`` other jobs.
        Booking again under the same name replaces what the job held.
        """

    def free(self, job_name: str) -> None:
        """The job has ended or will not start: let go of what it holds. Harmless if it holds nothing."""


class MemoryGpuBook:
    """A GpuBook for one process, for services used without nniweb."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, tuple[int, ...]]] = {}

    def booked(self, machine_identity: str) -> dict[str, tuple[int, ...]]:
        with self._lock:
            return {job: gpus for job, (machine, gpus) in self._held.items() if machine == machine_identity}

    def book(self, machine_identity: str, job_name: str, gpu_indices: tuple[int, ...], max_jobs_per_gpu: int) -> bool:
        with self._lock:
            others = [gpus for job, (machine, gpus) in self._held.items()
                      if machine == machine_identity and job != job_name]
            if any(sum(index in gpus for gpus in others) >= max_jobs_per_gpu for index in gpu_indices):
                return False
            self._held[job_name] = (machine_identity, gpu_indices)
            return True

    def free(self, job_name: str) -> None:
        with self._lock:
            self._held.pop(job_name, None)
