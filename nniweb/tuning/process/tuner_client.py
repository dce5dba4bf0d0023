"""The worker's side of the tuner process: starts it when it is needed and hands out futures."""

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from nniweb.tuning.process.tuner_child import (
    ExitKind,
    Reply,
    Surroundings,
    TunerChild,
    TunerExit,
    TunerFailed,
    TunerProcessDied,
)

__all__ = ["ExitKind", "ExperimentNotOpen", "Reply", "Surroundings", "TunerClient", "TunerExit", "TunerFailed",
           "TunerProcessDied"]

logger = logging.getLogger(__name__)

#: Seconds that algorithms of the user's own have when their experiment is over: for the results that were told and
#: have not arrived, and for ``_on_exit``.
EXIT_SECONDS = 300.0
#: The same, at most, when the worker ends: somebody waits for that.
SHUTDOWN_SECONDS = 10.0

DEFAULT_COMMAND = (sys.executable, "-m", "nniweb.tuning.process.tuner_process")


class ExperimentNotOpen(TunerProcessDied):
    """The experiment was not opened in the present tuner process. The remedy is that of its parent class: open it."""


class TunerClient:
    """One tuner process for all experiments of a worker, and one more for each experiment with an algorithm of the
    user's own, whose end then hurts nobody else. Thread-safe; no call blocks but ``shutdown`` and ``wait_for_exits``.

    A process starts with the first ``open``, or with ``prepare``. Requests of one experiment are answered in the
    order of the calls. A future fails with TunerFailed when that experiment's algorithm raised (others go on), with
    TunerProcessDied when the process ended: then every experiment must be opened again with its history, which starts
    a new process. Futures cannot be cancelled. Their callbacks run on the client's reading thread: they must be short
    and never wait for another of its futures.

    ``on_death`` may be set to be told of an unexpected end (called with the error, on the same thread).
    """

    def __init__(self, command: Sequence[str] | None = None, exit_seconds: float = EXIT_SECONDS) -> None:
        self.on_death: Callable[[TunerProcessDied], None] | None = None
        self._command = tuple(command or DEFAULT_COMMAND)
        self._exit_seconds = exit_seconds
        self._lock = threading.Lock()
        #: By the experiment that has it to itself; None: the one that the others share.
        self._children: dict[str | None, TunerChild] = {}
        #: Processes of experiments that are over.
        self._exiting: set[TunerChild] = set()
        #: The open experiments, each with the key of its process.
        self._open: dict[str, str | None] = {}
        self._is_shut_down = False
        #: Monotonic time at which those processes are killed because the worker ends; None: it does not.
        self._exits_until: float | None = None

    @property
    def pid(self) -> int | None:
        """The shared process's id, None while there is none."""
        return self.pid_of(None)

    def pid_of(self, experiment_id: str | None) -> int | None:
        """The id of the process that this experiment has to itself, None while there is none."""
        with self._lock:
            child = self._children.get(experiment_id)
            return child.pid if child is not None else None

    def prepare(self) -> None:
        """Start the process that experiments share, so that the first of them need not wait while it loads."""
        with self._lock:
            if not self._is_shut_down and None not in self._children:
                with suppress(OSError):  # the first experiment says why
                    self._children[None] = TunerChild(self._command, self._child_ended)

    def open(
        self, experiment_id: str, spec: Mapping[str, Any], history: Iterable[Mapping[str, Any]],
        surroundings: Surroundings | None = None,
    ) -> "Future[Reply]":
        """Make the experiment's tuner and assessor and replay its history, oldest first; an open one is replaced.

        ``spec``: ``search_space``, ``tuner`` (``name``, ``class_args``), ``assessor`` (the same, or None),
        ``optimize_mode`` (resolved), ``seed``, ``multi_phase`` (where it is true), ``constraints`` (texts, where there
        are any), ``start_points`` (parameter sets that are proposed first, where there are any),
        ``earlier`` (of each earlier experiment its results as [parameters, value], where there are any). History:
        ``{"event": "ask", "number", "parameters"}``, ``{"event": "tell", "number", "parameters", "value", "status"}``,
        ``{"event": "search_space", "search_space"}``, ``{"event": "intermediate", "trial", "sequence", "value"}``,
        ``{"event": "trial_end", "trial", "succeeded"}``; more in those of algorithms of the user's own, and of
        multi-phase ones.
        Result: ``{"stop": [running trials that the assessor wants stopped]}``. ``surroundings`` are those of the
        process that an algorithm of the user's own has to itself.
        """
        args = {"spec": dict(spec), "history": [_clean(event) for event in history]}
        with self._lock:
            if self._is_shut_down:
                return _failed(TunerProcessDied("the tuner client was shut down"))
            key = experiment_id if _is_own(spec) else None
            if key not in self._children:
                try:
                    self._children[key] = TunerChild(self._command, self._child_ended, owner=key,
                                                     surroundings=None if key is None else surroundings)
                except OSError as error:
                    return _failed(TunerProcessDied(f"the tuner process could not be started: {error}"))
            self._open[experiment_id] = key
            return self._children[key].request("open", experiment_id, args)

    def ask(self, experiment_id: str, first_number: int, count: int) -> "Future[Reply]":
        """Result: ``{"parameters": [up to count], "exhausted": bool}``, numbered from ``first_number``; of a tuner that
        chooses among others also ``chosen``, see ``Tuner.chosen``; with earlier results also ``agreements``, of each
        ``{"compared", "correlation", "weight"}``.

        A number that was not told yet may be asked for again and gets the same parameters.
        """
        return self._request("ask", experiment_id, {"first_number": first_number, "count": count})

    def ask_for_trials(self, experiment_id: str, first_number: int, trials: Sequence[str]) -> "Future[Reply]":
        """Further parameter sets for running trials (ids). Result: ``{"given": [{"trial", "parameters"}]}``, numbered
        from ``first_number`` in this order without those whose parameters are None, for which there are no more; a
        trial that is missing is to be asked for again.
        """
        return self._request("ask_for_trials", experiment_id, {
            "first_number": first_number, "trials": list(trials)})

    def tell(
        self, experiment_id: str, number: int | None, parameters: Mapping[str, Any], value: float | None, status: str,
        **more: Any,
    ) -> "Future[Reply]":
        """How a trial ended. ``value`` None (or not finite): it gave no number. ``number`` None: a result from
        elsewhere. ``more`` is for algorithms of the user's own, see ``Tuner.tell_event``.
        """
        args = {"number": number, "parameters": parameters, "value": value, "status": status, **more}
        return self._request("tell", experiment_id, _clean(args))

    def update_search_space(self, experiment_id: str, search_space: Mapping[str, Any]) -> "Future[Reply]":
        """An unusable search space fails the future with TunerFailed but breaks nothing: the old one stays."""
        return self._request("update_search_space", experiment_id, {"search_space": search_space})

    def intermediate(self, experiment_id: str, reports: Iterable[Mapping[str, Any]]) -> "Future[Reply]":
        """``{"trial", "sequence", "value"}`` reports for the assessor; one for an advisor of the user's own has
        ``number`` and ``result`` too. Result: ``{"stop": [trials]}``. An advisor may answer any call with ``stop``.
        """
        return self._request("intermediate", experiment_id, {"reports": [_clean(report) for report in reports]})

    def trial_end(self, experiment_id: str, trial: str, succeeded: bool) -> "Future[Reply]":
        """The trial's results are complete; only those of succeeded ones set the standard for others."""
        return self._request("trial_end", experiment_id, {"trial": trial, "succeeded": succeeded})

    def close_experiment(self, experiment_id: str) -> None:
        """Forget the experiment, whose algorithms are to be made again or have failed. Harmless when it is not open."""
        if child := self._take_out(experiment_id):
            child.end_soon()

    def finish_experiment(self, experiment_id: str, more_seconds: float = 0.0) -> "Future[TunerExit] | None":
        """The experiment is over. Algorithms of the user's own still get everything that was told, and ``_on_exit``, in
        so many seconds as this client was made with, and ``more_seconds``. The future is done when their process has
        ended. None where the experiment is not open, or has no process to itself.
        """
        child = self._take_out(experiment_id, is_exiting=True)
        return child.exit(self._exit_seconds + more_seconds) if child else None

    def abandon_exit(self, experiment_id: str) -> None:
        """After ``finish_experiment``: end the process soon, whatever has not arrived. Harmless when it has ended."""
        for child in self._exiting_of([experiment_id]):
            child.abandon()

    def wait_for_exits(self, experiment_ids: Sequence[str]) -> None:
        """After ``finish_experiment``: wait until the processes have ended, SHUTDOWN_SECONDS at most for all of them,
        and kill the others.
        """
        until = self._exits_until or time.monotonic() + self._shutdown_seconds
        for child in self._exiting_of(experiment_ids):
            child.end_within(max(0.0, until - time.monotonic()))

    def hurry(self) -> None:
        """The worker ends: from now on experiments that are over have SHUTDOWN_SECONDS, all together."""
        self._exits_until = self._exits_until or time.monotonic() + self._shutdown_seconds

    def shutdown(self) -> None:
        """End the processes; waiting futures fail with TunerProcessDied. Algorithms of the user's own still get
        what was told, and ``_on_exit``, as far as SHUTDOWN_SECONDS suffice. Takes at most about 20 s; may be repeated.
        """
        self.hurry()
        with self._lock:
            self._is_shut_down = True
            own = [experiment for experiment, key in self._open.items() if key is not None]
        for experiment in own:
            self.finish_experiment(experiment)
        with self._lock:
            children = list(self._children.values())
            exiting = [str(child.owner) for child in self._exiting]
        for child in children:
            child.end_soon()
        self.wait_for_exits(exiting)
        for child in children:
            child.end()

    @property
    def _shutdown_seconds(self) -> float:
        return min(SHUTDOWN_SECONDS, self._exit_seconds)

    def _exiting_of(self, experiment_ids: Sequence[str]) -> list[TunerChild]:
        with self._lock:
            return [child for child in self._exiting if child.owner in experiment_ids]

    def _take_out(self, experiment_id: str, *, is_exiting: bool = False) -> TunerChild | None:
        """Close the experiment; its process, where it has one to itself."""
        with self._lock:
            if experiment_id not in self._open:
                return None
            key = self._open.pop(experiment_id)
            if key is None:
                self._children[None].request("close", experiment_id, {})
                return None
            child = self._children.pop(key)
            if is_exiting:
                self._exiting.add(child)
            return child

    def _request(self, op: str, experiment_id: str, args: Mapping[str, Any]) -> "Future[Reply]":
        with self._lock:
            if experiment_id not in self._open:
                message = f"experiment {experiment_id} is not open in the tuner process; open it with its history"
                return _failed(ExperimentNotOpen(message))
            return self._children[self._open[experiment_id]].request(op, experiment_id, args)

    def _child_ended(self, child: TunerChild, error: TunerProcessDied) -> None:
        with self._lock:
            self._exiting.discard(child)
            ended = [key for key, running in self._children.items() if running is child]
            for key in ended:
                del self._children[key]
                self._open = {opened: its_key for opened, its_key in self._open.items() if its_key != key}
            is_expected = self._is_shut_down or not ended
        if is_expected:
            return
        logger.error("%s", error)
        if self.on_death is not None:
            try:
                self.on_death(error)
            except Exception:
                logger.exception("the callback for the end of the tuner process raised")


def _is_own(spec: Mapping[str, Any]) -> bool:
    """Whether an algorithm of the user's own takes part."""
    return any((spec.get(part) or {}).get("class_name") for part in ("tuner", "assessor"))


def _clean(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with a value that is no finite number as None, its reports likewise."""
    cleaned = dict(message)
    if "value" in cleaned:
        cleaned["value"] = _finite(cleaned["value"])
    if "reports" in cleaned:
        cleaned["reports"] = [_clean(report) for report in cleaned["reports"]]
    return cleaned


def _finite(value: float | None) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _failed(error: TunerProcessDied) -> "Future[Reply]":
    future: Future[Reply] = Future()
    future.set_exception(error)
    return future
