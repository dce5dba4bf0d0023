"""The pods that a watch tells of, by the trials they belong to."""

from __future__ import annotations

import threading

from trainingservice.kubernetes_base import names
from trainingservice.kubernetes_base.api import Object


class PodIndex:
    """From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_job: dict[str, dict[str, Object]] = {}  # job name -> pod name -> pod
        self._job_of: dict[str, str] = {}  # pod name -> job name

    def take(self, name: str, pod: Object | None) -> str:
        """A pod as it is now, None for gone. The name of its job; "" for a pod that belongs to none."""
        with self._lock:
            if pod is None:
                job_name = self._job_of.pop(name, "")
                of_job = self._of_job.get(job_name, {})
                of_job.pop(name, None)
                if not of_job:
                    self._of_job.pop(job_name, None)
                return job_name
            job_name = str((pod["metadata"].get("labels") or {}).get(names.TRIAL) or "")
            if job_name:
                self._job_of[name] = job_name
                self._of_job.setdefault(job_name, {})[name] = pod
            return job_name

    def of_job(self, job_name: str) -> list[Object]:
        with self._lock:
            return list(self._of_job.get(job_name, {}).values())

    def of_experiment(self, experiment_id: str) -> list[str]:
        """Names of the pods that its trials still have."""
        with self._lock:
            return [name for of_job in self._of_job.values() for name, pod in of_job.items()
                    if (pod["metadata"].get("labels") or {}).get(names.EXPERIMENT) == experiment_id]
