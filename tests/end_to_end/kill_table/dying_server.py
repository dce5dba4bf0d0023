"""A server that kills itself (KILL, as when the power fails) at a named point, when it comes there for the nth time.

    python -m tests.end_to_end.kill_table.dying_server POINT N serve
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

#: What a point is called in the table -> where it is: (module, name in it, before or after that was called).
POINTS = {
    "before a submission": ("trainingservice.polling.service", "PollingTrainingService.submit_trial_job", "before"),
    "after a submission": ("trainingservice.polling.service", "PollingTrainingService.submit_trial_job", "after"),
    "before a keeper is started": ("trainingservice.local.service", "LocalTrainingService.start_job", "before"),
    "after a keeper was started": ("trainingservice.local.service", "LocalTrainingService.start_job", "after"),
    "between commit and answer": ("nniweb.keeperapi.group_commit", "GroupCommit._answer", "before"),
    "before a tuner is told": ("nniweb.worker.rounds.telling.teach_tuner", "append_events", "before"),
    "after a tuner was told": ("nniweb.worker.cluster_host.tuner_sessions", "TunerSessions.tell", "after"),
    "before new trials are committed": ("nniweb.worker.rounds.fill_slots", "_make_attempts", "after"),
    "in a status write": ("nniweb.experiments.lifecycle.transitions", "move_trial", "after"),
}
#: The same of multi-phase experiments, whose running trials ask for further parameter sets.
MULTI_PHASE_POINTS = {
    "before a further parameter set is committed": (
        "nniweb.worker.rounds.hand_parameters", "append_events", "before"),
    "after a further parameter set was committed": (
        "nniweb.worker.cluster_host.tuner_sessions", "TunerSessions.recorded", "before"),
    "before a further parameter set is handed over": (
        "trainingservice.polling.service", "PollingTrainingService.update_trial_job", "before"),
    "before a result of a parameter set is told": (
        "nniweb.worker.rounds.telling.told_results", "append_events", "before"),
    "after a result of a parameter set was stored": (
        "nniweb.experiments.ingest.report_entries", "keep_results_of_sets", "after"),
}
#: The same of services without keepers, whose listener is told the metrics.
LISTENER_POINTS = {
    "when a service emits a metric": ("nniweb.worker.cluster_host.metric_inbox", "MetricInbox.listen", "before"),
    "before metrics of a service are committed": ("nniweb.worker.cluster_host.metric_inbox", "store_heard", "after"),
    "after metrics of a service were committed": (
        "nniweb.worker.cluster_host.metric_inbox", "MetricInbox._store_group", "after"),
    "before an end that a service saw is written": (
        "nniweb.worker.rounds.observing.observe_trials", "_end_as_observed", "before"),
    "before an end that a service saw is committed": (
        "nniweb.worker.rounds.observing.observe_trials", "_end_as_observed", "after"),
    "after a submission to a service": (
        "tests.end_to_end.platforms.returning_service", "ReturningService.submit_trial_job", "after"),
    "before a submission to a service": (
        "tests.end_to_end.platforms.returning_service", "ReturningService.submit_trial_job", "before"),
    "before the jobs of a service are taken over": (
        "tests.end_to_end.platforms.returning_service", "ReturningService.resume_trial_jobs", "before"),
}


class Countdown:
    def __init__(self, passes: int) -> None:
        self._left = passes
        self._guard = threading.Lock()

    def passed(self) -> None:
        """Called at the point, on whatever thread; does not return from the last one."""
        with self._guard:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()


def dying(function: Callable[..., Any], when: str, countdown: Countdown) -> Callable[..., Any]:
    @functools.wraps(function)
    def at_the_point(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            countdown.passed()
        result = function(*args, **kwargs)
        if when == "after":
            countdown.passed()
        return result

    return at_the_point


@contextmanager
def doomed(point: str, passes: int) -> Iterator[None]:
    module, name, when = {**POINTS, **MULTI_PHASE_POINTS, **LISTENER_POINTS}[point]
    holder: Any = importlib.import_module(module)
    *classes, last = name.split(".")
    for part in classes:
        holder = getattr(holder, part)
    function = holder.__dict__[last]
    is_static = isinstance(function, staticmethod)
    wrapped: Any = dying(function.__func__ if is_static else function, when, Countdown(passes))
    with mock.patch.object(holder, last, staticmethod(wrapped) if is_static else wrapped):
        yield


def main() -> None:
    point, passes, *arguments = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    import django

    django.setup()
    from django.core.management import execute_from_command_line

    with doomed(point, int(passes)):
        execute_from_command_line(["manage.py", *arguments])


if __name__ == "__main__":
    main()
