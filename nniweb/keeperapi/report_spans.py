"""The spans of reports. A report names its job; which trial of which experiment that is, the database knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nniweb.experiments.models import Attempt
from trainingservice import tracing

#: Jobs whose trials are remembered: those that report now.
REMEMBERED = 10_000


class ReportSpans:
    """Used by one thread. Asks the database once for each job."""

    def __init__(self) -> None:
        #: Job -> experiment, trial, platform.
        self._known: dict[str, tuple[str, str, str]] = {}

    def show(self, answered: Sequence[tuple[str, int, float, int]]) -> None:
        """Record reports: of each the job, the HTTP status of its answer, seconds from its arrival to the answer, and
        its size in bytes. Those of jobs that are not here, or without the job's token, are left out: their senders are
        strangers. Raises DatabaseError.
        """
        known = self._of({job for job, status, *_ in answered if status not in (401, 403, 404)})
        for job, status, seconds, size in answered:
            if (ids := known.get(job)) is not None and status not in (401, 403, 404):
                experiment, trial, platform = ids
                tracing.passed("report", seconds, status=status, bytes=size, job=job, experiment=experiment,
                               trial=trial, platform=platform)

    def _of(self, jobs: Collection[str]) -> Mapping[str, tuple[str, str, str]]:
        if unknown := [job for job in jobs if job not in self._known]:
            if len(self._known) + len(unknown) > REMEMBERED:
                self._known.clear()
                unknown = list(jobs)
            for job, trial, experiment, platform in Attempt.objects.filter(job_name__in=unknown).values_list(
                    "job_name", "trial__public_id", "trial__experiment__public_id", "cluster__platform"):
                self._known[job] = (experiment, trial, platform or "")
        return self._known
