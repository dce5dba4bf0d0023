"""The tuners of one cluster's experiments, as its rounds see them: opened when needed, never waited for.

The tuner itself lives in the tuner process. Requests of one experiment are answered in their
order, so an experiment counts as opened from the moment its history was sent. Answers are laid
into a box that the next round empties. What dies is opened again from the recorded events.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from nniweb.experiments.models import Experiment
from nniweb.tuning.tuner_client import TunerClient, TunerFailed, TunerProcessDied
from nniweb.worker.tuner_events import assessor_history, tuner_history

logger = logging.getLogger(__name__)


#: An algorithm that was at work so often when the tuner process died is taken for the cause.
MOST_DEATHS = 3


@dataclass(eq=False)
class _Opened:
    """What is known of one opened tuner. A new object for each opening: answers to an older one are dropped."""

    public_id: str
    search_space_version: int
    assessed_revision: int
    asking: bool = False
    assessing: bool = False
    stops: list[str] = field(default_factory=list)


class TunerDesk:
    """Used by the cluster's round thread alone. Several desks share one client."""

    def __init__(self, client: TunerClient, wake: Callable[[], None],
                 fail: Callable[[Experiment, str], None]) -> None:
        """``wake`` is called, from any thread, when an answer has come; ``fail`` when a tuner cannot go on."""
        self._client = client
        self._wake = wake
        self._fail = fail
        self._opened: dict[int, _Opened] = {}
        self._deaths: dict[int, int] = {}
        self._box: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def __contains__(self, experiment_pk: int) -> bool:
        """Whether the experiment's tuner is open."""
        return experiment_pk in self._opened

    def collect(self) -> None:
        """Act on the answers that have come."""
        while True:
            try:
                outcome = self._box.get_nowait()
            except queue.Empty:
                return
            outcome()

    def ready(self, experiment: Experiment) -> bool:
        """Open the experiment's tuner where it is not; False where that failed, and the experiment with it."""
        if experiment.pk in self._opened:
            return True
        full = Experiment.objects.get(pk=experiment.pk)
        history = tuner_history(full)
        changes = sum(event["event"] == "search_space" for event in history)
        # the space it began with; later ones are part of the history
        space = full.config.get("searchSpace", full.search_space) if full.search_space_version else full.search_space
        state = _Opened(full.public_id, changes, full.revision)
        self._opened[experiment.pk] = state
        spec = {"search_space": space, "tuner": full.tuner, "assessor": full.assessor,
                "optimize_mode": full.optimize_mode, "seed": full.seed}
        assessed = assessor_history(full, full.revision) if full.assessor is not None else iter(())
        future = self._client.open(full.public_id, spec, chain(history, assessed))
        self._when_done(experiment, state, future, lambda answer: state.stops.extend(answer.get("stop", ())))
        return experiment.pk in self._opened

    def ask(self, experiment: Experiment, first_number: int, count: int,
            done: Callable[[list[dict[str, Any]], bool], None]) -> None:
        """Ask for parameter sets unless the experiment is waiting for some already."""
        if not self.ready(experiment):
            return
        state = self._opened[experiment.pk]
        if state.asking:
            return
        state.asking = True

        def answered(answer: dict[str, Any]) -> None:
            state.asking = False
            done(answer["parameters"], answer["exhausted"])

        self._when_done(experiment, state, self._client.ask(state.public_id, first_number, count), answered)

    def tell(self, experiment: Experiment, event: dict[str, Any]) -> None:
        """Tell an end whose event is recorded; a tuner that is not opened learns it from the record."""
        if (state := self._opened.get(experiment.pk)) is not None:
            self._when_done(experiment, state, self._client.tell(
                state.public_id, event["number"], event["parameters"], event["value"], event["status"]))

    def trial_end(self, experiment: Experiment, trial: str, succeeded: bool) -> None:
        if (state := self._opened.get(experiment.pk)) is not None:
            self._when_done(experiment, state, self._client.trial_end(state.public_id, trial, succeeded))

    def search_space_version(self, experiment_pk: int) -> int:
        return self._opened[experiment_pk].search_space_version

    def update_search_space(self, experiment: Experiment) -> None:
        state = self._opened[experiment.pk]
        state.search_space_version = experiment.search_space_version
        self._when_done(experiment, state,
                        self._client.update_search_space(state.public_id, experiment.search_space))

    def assessed_revision(self, experiment_pk: int) -> int:
        return self._opened[experiment_pk].assessed_revision

    def assess(self, experiment: Experiment, reports: list[dict[str, Any]], revision: int,
               stop: Callable[[list[str]], None]) -> None:
        """Hand over intermediate results up to ``revision``; ``stop`` gets the trials to be stopped early."""
        state = self._opened[experiment.pk]
        state.assessed_revision = revision

        def judged(answer: dict[str, Any]) -> None:
            state.stops.extend(answer["stop"])
            if state.stops:
                stop(state.stops)
                state.stops = []  # not before it is written: the assessor names each once

        self._when_done(experiment, state, self._client.intermediate(state.public_id, reports), judged)

    def forget(self, experiment_pk: int) -> None:
        """Close the tuner; it is rebuilt from the events if it is needed again."""
        if (state := self._opened.pop(experiment_pk, None)) is not None:
            self._client.close_experiment(state.public_id)

    def close(self) -> None:
        for experiment_pk in list(self._opened):
            self.forget(experiment_pk)

    def _note_death(self, experiment: Experiment, state: _Opened, error: BaseException) -> None:
        """The tuner process died: the tuner is rebuilt, unless its own algorithm brings the process down each time."""
        if getattr(error, "suspect", None) == state.public_id:
            self._deaths[experiment.pk] = self._deaths.get(experiment.pk, 0) + 1
        if self._deaths.get(experiment.pk, 0) >= MOST_DEATHS:
            self._fail(experiment, f"The tuner ended its process {MOST_DEATHS} times: {error}")
        else:
            logger.warning("experiment %s: the tuner process died (%s); its tuner is rebuilt", state.public_id, error)

    def _when_done(self, experiment: Experiment, state: _Opened, future: Future[dict[str, Any]],
                   done: Callable[[dict[str, Any]], None] = lambda answer: None) -> None:
        def outcome() -> None:
            if self._opened.get(experiment.pk) is not state:
                return
            try:
                answer = future.result(timeout=0)
            except (TunerProcessDied, CancelledError) as error:
                self._opened.pop(experiment.pk, None)
                self._note_death(experiment, state, error)
            except TunerFailed as error:
                self._opened.pop(experiment.pk, None)
                self._client.close_experiment(state.public_id)
                logger.warning("experiment %s: its tuner failed: %s\n%s", state.public_id, error, error.traceback)
                self._fail(experiment, f"The tuner failed: {error}")
            else:
                done(answer)

        def laid_into_box(_: Future[dict[str, Any]]) -> None:
            self._box.put(outcome)
            self._wake()

        future.add_done_callback(laid_into_box)
