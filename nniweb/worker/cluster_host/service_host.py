"""Owns the service object of one cluster: builds it, runs it, calls it without ever waiting for it.

Calls go to threads of the host's own; what they return is laid into a box that the cluster's
rounds empty. So a platform that hangs holds up its own cluster's calls, never a round, never the
worker.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from django.db import DatabaseError, close_old_connections, connection

from nniweb.experiments.sql.exact_text import printable
from nniweb.observability.log_ids import log_ids, with_ids_of_now
from nniweb.worker.cluster_host.call_threads import CallThreads
from trainingservice.base import MetricListener, TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError, UnknownTrialJob
from trainingservice.reasons import Reason
from trainingservice.secrets_in_use import ServiceThread
from trainingservice.trial_job import ResumedJob
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Calls into one service at the same time.
PARALLEL_CALLS = 4
#: A call that takes longer marks the cluster.
SLOW_CALL_SECONDS = 60.0
#: What came of a call, and what a platform says of a job, may wait so long, in seconds, for more of it: what frees
#: slots and shows results is the keepers' word, which rings for itself.
NOT_URGENT = 0.1
#: A call's defect is told for so long, in seconds, where no other call of the method follows: longer than any pause
#: before the next try.
CALL_FAULT_SECONDS = 180.0
#: Characters of what a method raised.
LONGEST_ERROR = 1000
#: Pauses before a service that failed is built again, in seconds.
REBUILD_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)


class _FailedStep(Exception):
    """A method of the start has a defect, which is the cause."""

    def __init__(self, method: str) -> None:
        super().__init__(method)
        self.method = method


class ServiceHost:
    """One service object at a time, built anew when it fails. Used by the cluster's round thread only."""

    def __init__(self, name: str, build: Callable[[Callable[[str], None]], TrainingService],
                 jobs_to_resume: Callable[[], Sequence[ResumedJob]], wake: Callable[[float], None],
                 listener: MetricListener, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``wake(seconds)`` is called, from any thread, when a round should come within this time.

        ``listener`` is added to each service object, before it is told of the jobs that it takes over.
        """
        self._name = name
        self._build = build
        self._jobs_to_resume = jobs_to_resume
        self._wake = wake
        self._listener = listener
        self._monotonic = monotonic
        self._threads = CallThreads(f"calls-{name}", PARALLEL_CALLS)
        self._box: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._calls: dict[int, tuple[float, str]] = {}
        self._call_number = 0
        self._guard = threading.Lock()
        self._service: TrainingService | None = None
        self._building = False
        self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._changed: set[str] = set()
        self._started_at = 0.0
        #: What the platform's code does wrong: its method -> a sentence.
        self.faults: dict[str, str] = {}
        #: Of those of calls: monotonic time until which each is told.
        self._faults_until: dict[str, float] = {}
        #: Method -> the defect of it that was logged last.
        self._logged: dict[str, str] = {}
        #: Why there is no service, a sentence; "" while there is one.
        self.message: str = Reason("service_starting", said="The service of this cluster is being started.")
        #: Whether the reason is one that only a person can mend.
        self.needs_person = False

    @property
    def is_starting(self) -> bool:
        """Whether a service is being made and none has failed before."""
        return self._building and not self._failures

    @property
    def service(self) -> TrainingService | None:
        """The running service; None while it is being built or waits to be built again."""
        return self._service

    def look_after(self) -> None:
        """Build the service if there is none and it is time."""
        self._forget_old_faults()
        if self._service is None and not self._building and not self._closed \
                and self._monotonic() >= self._not_before:
            self._building = True
            self._submit("start", "__init__", self._start, self._started, self._start_failed)

    def call(self, what: str, method: str, function: Callable[[], T], done: Callable[[T], None],
             failed: Callable[[TrainingServiceError], None]) -> None:
        """Call into the service on a thread of the host; ``done`` or ``failed`` runs in a later round.

        ``method``: of the service. An error of a kind the interface does not know is a defect of the platform: it is
        logged, with its traceback the first time, kept in ``faults`` for a while, and handed on as TemporaryError.
        """
        self._submit(what, method, function, done, failed, wake_within=NOT_URGENT)

    def ask(self, what: str, question: Callable[[], T], otherwise: T) -> T:
        """A question that the service answers from memory, put in the round itself.

        An error is a defect of the platform: it is logged once, kept in ``faults`` until the question is answered,
        and ``otherwise`` is the answer. UnknownTrialJob is passed on. One that never returns is among ``slow_calls``,
        which another thread shows.
        """
        with self._guard:
            self._call_number += 1
            number = self._call_number
            self._calls[number] = (self._monotonic(), what)
        try:
            answer = question()
        except UnknownTrialJob:
            raise
        except BaseException as error:  # also sys.exit: what ends a process may not end the rounds
            self.faults[what] = self._defect(what, error)
            return otherwise
        finally:
            with self._guard:
                self._calls.pop(number, None)
        self.faults.pop(what, None)
        return answer

    def collect(self) -> int:
        """Run what finished calls left for the round; returns how many."""
        count = 0
        while True:
            try:
                outcome = self._box.get_nowait()
            except queue.Empty:
                return count
            outcome()
            count += 1

    def changed_jobs(self) -> set[str]:
        """Names of jobs whose details changed since the last question."""
        with self._guard:
            changed, self._changed = self._changed, set()
        return changed

    def look_again_at(self, job_names: Collection[str]) -> None:
        """Put names back that ``changed_jobs`` gave out and that could not be looked at."""
        with self._guard:
            self._changed.update(job_names)

    def slow_calls(self) -> list[dict[str, Any]]:
        """What has been going on for too long: {"what", "seconds"} of each, as in the reason ``slow_call``."""
        now = self._monotonic()
        with self._guard:
            calls = [(what, now - since) for since, what in self._calls.values()]
        return [{"what": what, "seconds": round(seconds)} for what, seconds in calls if seconds > SLOW_CALL_SECONDS]

    def close(self) -> None:
        """End the service; trials go on. Does not wait for calls that hang."""
        self._closed = True
        service, self._service = self._service, None
        if service is not None:
            self._clean_up_soon(service)
        self._threads.close()

    def join(self, timeout: float) -> None:
        """Wait for calls that are under way, at most ``timeout`` seconds."""
        self._threads.join(timeout)

    # --- inside ----------------------------------------------------------------------------

    def _submit(self, what: str, method: str, function: Callable[[], T], done: Callable[[T], None],
                failed: Callable[[TrainingServiceError], None], wake_within: float = 0.0) -> None:
        function, done, failed = with_ids_of_now(function), with_ids_of_now(done), with_ids_of_now(failed)
        with self._guard:
            self._call_number += 1
            number = self._call_number
            self._calls[number] = (self._monotonic(), what)

        def work() -> None:
            close_old_connections()
            try:
                with log_ids(cluster=self._name):
                    result = function()
            except TrainingServiceError as error:
                outcome: Callable[[], None] = lambda error=error: failed(error)  # type: ignore[misc]  # noqa: E731
            except BaseException as error:  # also sys.exit: whoever waits for the call hears of it
                at = error.method if isinstance(error, _FailedStep) else method
                defect = self._defect(at, error.__cause__ if isinstance(error, _FailedStep) else error)
                outcome = lambda: self._note_defect(at, defect, failed)  # noqa: E731
            else:
                outcome = lambda: self._note_answer(method, result, done)  # noqa: E731
            finally:
                connection.close()
                with self._guard:
                    self._calls.pop(number, None)
            self._box.put(outcome)
            self._wake(wake_within)

        try:
            taken = self._threads.submit(work)
        except (RuntimeError, MemoryError) as error:
            if not is_shortage(error):
                raise
            fault = TemporaryError(f"The server's machine has no thread to spare for a call to the platform ({what}). "
                                   "Raise its limit on processes and threads (ulimit -u, TasksMax=), or end programs "
                                   "that use too many.")
            self._box.put(lambda: failed(fault))
            taken = False
        if not taken:
            with self._guard:
                self._calls.pop(number, None)

    def _defect(self, method: str, error: BaseException | None) -> Reason:
        """The reason that tells of it. It is logged with its traceback where it is another than the last one there."""
        said = printable(": ".join(filter(None, (type(error).__name__, _text_of(error)))), LONGEST_ERROR)
        reason = Reason("service_defect", method=method, error=said)
        with self._guard:
            is_known = self._logged.get(method) == said
            self._logged[method] = said
        if not is_known:
            logger.error("cluster %s: the platform's code failed in %s", self._name, method, exc_info=error)
        return reason

    def _note_defect(self, method: str, defect: Reason, failed: Callable[[TrainingServiceError], None]) -> None:
        self.faults[method] = defect
        self._faults_until[method] = self._monotonic() + CALL_FAULT_SECONDS
        failed(TemporaryError(defect))

    def _note_answer(self, method: str, result: T, done: Callable[[T], None]) -> None:
        self.faults.pop(method, None)
        self._faults_until.pop(method, None)
        done(result)

    def _forget_old_faults(self) -> None:
        """Those of calls: perhaps nobody calls again."""
        now = self._monotonic()
        for method in [method for method, until in self._faults_until.items() if now >= until]:
            del self._faults_until[method]
            self.faults.pop(method, None)

    def _note_change(self, job_name: str) -> None:
        with self._guard:
            self._changed.add(job_name)
        self._wake(NOT_URGENT)

    def _start(self) -> TrainingService:
        service = self._build(self._note_change)
        method = "add_trial_job_metric_listener"
        try:
            service.add_trial_job_metric_listener(self._listener)
            jobs, method = self._jobs_to_resume(), "resume_trial_jobs"
            service.resume_trial_jobs(jobs)
        except BaseException as error:
            self._clean_up(service)
            if isinstance(error, TrainingServiceError | DatabaseError):
                raise
            raise _FailedStep(method) from error
        return service

    def _started(self, service: TrainingService) -> None:
        self._building = False
        if self._closed:
            self._clean_up(service)
            return
        self._started_at = self._monotonic()
        try:
            ServiceThread(target=self._run, args=[service], name=f"service-{self._name}", daemon=True).start()
        except (RuntimeError, MemoryError):
            self._clean_up_soon(service)
            self._fail("The server's machine has no thread to spare for this cluster's service.", needs_person=False)
            return
        self._service, self.message, self.needs_person = service, "", False
        self.faults.clear()

    def _start_failed(self, error: TrainingServiceError) -> None:
        self._building = False
        if isinstance(error, TemporaryError):
            self._fail(error.reason, needs_person=False)
        else:
            self._fail(_unusable(error.reason), needs_person=True)

    def _run(self, service: TrainingService) -> None:
        try:
            with log_ids(cluster=self._name):
                service.run()
            reason: str = Reason("service_ended", said="The service of this cluster ended unexpectedly.")
        except TrainingServiceError as error:
            reason = error.reason
        except BaseException as error:  # also sys.exit: the thread is the service's, and the service is built again
            reason = self._defect("run", error)
        finally:
            connection.close()
        self._box.put(lambda: self._ended(service, reason))
        self._wake(0.0)

    def _ended(self, service: TrainingService, reason: str) -> None:
        if self._closed or self._service is not service:
            return
        if self._monotonic() - self._started_at > REBUILD_PAUSES[-1]:
            self._failures = 0
        self._service = None
        self._clean_up_soon(service)
        self._fail(reason, needs_person=False)

    def _fail(self, reason: str, needs_person: bool) -> None:
        pause = REBUILD_PAUSES[min(self._failures, len(REBUILD_PAUSES) - 1)]
        self._failures += 1
        self._not_before = self._monotonic() + pause
        self.message, self.needs_person = reason, needs_person
        logger.warning("cluster %s: %s Next try in %g s.", self._name, reason, pause)

    def _clean_up_soon(self, service: TrainingService) -> None:
        try:
            self._threads.submit(lambda: self._clean_up(service))
        except (RuntimeError, MemoryError):  # there is no thread to spare: it takes as long as it takes
            self._clean_up(service)

    def _clean_up(self, service: TrainingService) -> None:
        try:
            service.remove_trial_job_metric_listener(self._listener)
        except BaseException:
            logger.exception("cluster %s: the service's metrics are still listened to", self._name)
        try:
            service.clean_up()
        except BaseException:
            logger.exception("cluster %s: the service could not be closed", self._name)


def _text_of(error: BaseException | None) -> str:
    """What it says; "" where its class, which may be of the platform's own, cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def _unusable(reason: str) -> Reason:
    return reason if isinstance(reason, Reason) else Reason("settings_unusable", said=reason)
