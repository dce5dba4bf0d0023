"""The tuners of one cluster's experiments, as its rounds see them: opened when needed, never waited for.

The tuner itself lives in the tuner process. Requests of one experiment are answered in their
order, so an experiment counts as opened from the moment its history was sent. Answers are laid
into a box that the next round empties. What dies is opened again from the recorded events.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from nniweb.experiments.actions.imported_results import imported_events
from nniweb.experiments.earlier.start_from import earlier_of
from nniweb.experiments.lifecycle.tuner_events import assessor_history, tuner_history
from nniweb.experiments.lifecycle.tuner_surroundings import surroundings_of
from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.queries.present_revisions import present
from nniweb.observability.log_ids import log_ids
from nniweb.tuning.process.tuner_client import TunerClient, TunerExit, TunerFailed, TunerProcessDied
from trainingservice import tracing
from trainingservice.reasons import Reason

logger = logging.getLogger(__name__)


#: An algorithm that was at work when the tuner process died so often in a row is taken for the cause. In a row: between
#: two deaths it has neither proposed anything nor taken a result, apart from the replay of its history.
MOST_DEATHS = 3


@dataclass(eq=False)
class _Opened:
    """What is known of one opened tuner. A new object for each opening: answers to an older one are dropped."""

    public_id: str
    search_space_version: int
    assessed_revision: int
    #: Events of its history that it knows of: those it was opened with and those recorded by this worker since.
    known_events: int
    #: Imported results with smaller numbers are known to it.
    imports_from: int
    #: The algorithm, as the experiment had it.
    tuner: dict[str, Any]
    stops: list[str] = field(default_factory=list)
    #: By which tuner it proposes, as it said last, where it chooses among others.
    chosen: dict[str, Any] | None = None
    #: When it was asked for parameters that it has not given yet.
    asked_at: datetime | None = None
    #: Whether more was wanted while it was asked already.
    wants_more: bool = False
    #: Whether running trials wanted further parameters meanwhile: they come next.
    trials_come_next: bool = False
    has_taken_history: bool = False
    #: Results that it was told and has not taken yet.
    untaken: int = 0


@dataclass(frozen=True)
class Proposals:
    """What a tuner answered: parameter sets; whether there are no more; how earlier experiments agree with this one;
    and for each set the number of the proposal whose trial it goes on with, or None.
    """

    parameters: list[dict[str, Any]]
    exhausted: bool
    agreements: Sequence[Mapping[str, Any]]
    continues: Sequence[int | None]


class TunerSessions:
    """Used by the cluster's round thread alone. Several desks share one client."""

    def __init__(self, client: TunerClient, wake: Callable[[], None],
                 fail: Callable[[Experiment, str, int | None], None], stop: Callable[[Experiment, list[str]], None],
                 guard: Callable[[Experiment, str, Callable[[], None]], None],
                 exited: Callable[[int, TunerExit], None],
                 note_choice: Callable[[Experiment, dict[str, Any]], None] = lambda experiment, chosen: None,
                 platform: str = "") -> None:
        """``wake`` is called, from any thread, when an answer has come; ``fail`` when a tuner cannot go on, with
        the reason and the number of results that it was told and has not taken (None: nobody knows which of all);
        ``stop`` with the trials (ids) that it wants stopped early; ``guard`` carries out what an answer asks for;
        ``exited`` when the process of an experiment (primary key) that is over has ended; ``note_choice`` when a tuner
        that chooses among others has chosen another one (``Tuner.chosen``). ``platform``: of the cluster, for traces.
        """
        self._platform = platform
        self._client = client
        self._wake = wake
        self._fail = fail
        self._stop = stop
        self._guard = guard
        self._exited = exited
        #: Experiments that are over -> their tuners, custom ones, that still receive results or are in ``_on_exit``.
        self._exiting: dict[int, _Opened] = {}
        self._note_choice = note_choice
        self._opened: dict[int, _Opened] = {}
        #: Deaths in a row, by experiment.
        self._deaths: dict[int, int] = {}
        #: Those that were asked since answers were collected.
        self._asked: list[_Opened] = []
        #: Whether what is laid into the box is seen without a ring.
        self._is_collecting = False
        self._box: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def __contains__(self, experiment_pk: int) -> bool:
        """Whether the experiment's tuner is open."""
        return experiment_pk in self._opened

    def collect(self, patience: float = 0.0) -> None:
        """Act on the answers that have come, and for so many seconds on those to what was asked since the last time."""
        until = time.monotonic() + patience
        asked, self._asked = self._asked, []
        self._is_collecting = True
        try:
            while any(state.asked_at for state in asked) and (left := until - time.monotonic()) > 0.0:
                try:
                    outcome = self._box.get(timeout=left)
                except queue.Empty:
                    break
                outcome()
        finally:
            self._is_collecting = False
        # once more, after that: who saw it set has not rung
        while True:
            try:
                outcome = self._box.get_nowait()
            except queue.Empty:
                return
            outcome()

    def ready(self, experiment: Experiment) -> bool:
        """Open the experiment's tuner where it is not; False where that failed, and the experiment with it."""
        if (known := self._opened.get(experiment.pk)) is not None:
            if experiment.tuner == known.tuner and (
                    # it learns nothing from events, and each batch of proposals from outside adds some
                    experiment.has_external_tuner or experiment.next_tuner_event <= known.known_events
                    or self._tell_imported(experiment, known)):
                return True
            self.forget(experiment.pk)  # somebody brought results from elsewhere, or chose another tuner
        full = Experiment.objects.get(pk=experiment.pk)
        history = tuner_history(full)
        spaces = [event["search_space"] for event in history if event["event"] == "search_space"]
        # of several changes between two rounds it was told the last one
        version = full.search_space_version if spaces and spaces[-1] == full.search_space else len(spaces)
        # the space it began with; later ones are part of the history
        space = full.config.get("searchSpace", full.search_space) if full.search_space_version else full.search_space
        now = present(full.pk)
        assessed_upto = full.revision if now is None else now.revision
        state = _Opened(full.public_id, version, assessed_upto, len(history), len(history), full.tuner)
        self._opened[experiment.pk] = state
        logger.info("experiment %s: its tuner, %s, is created%s", full.public_id, _name_of(full.tuner),
                    f" again from {len(history)} stored events" if history else "")
        spec = {"search_space": space, "tuner": full.tuner, "assessor": full.assessor,
                "optimize_mode": full.optimize_mode, "seed": full.seed}
        if full.constraints:
            spec["constraints"] = full.constraints
        if start_points := full.config.get("startPoints"):
            spec["start_points"] = start_points
        if full.config.get("startFrom"):
            spec["earlier"] = earlier_of(full)
        if full.multi_phase:
            spec["multi_phase"] = True
        if full.has_replicates:
            spec["replicates"] = True
        if full.has_several_objectives:
            spec["objective_modes"] = [objective["optimize_mode"] for objective in full.objectives]
        hears_results = full.assessor is not None or full.has_own_tuner
        assessed = assessor_history(full, assessed_upto) if hears_results else iter(())
        surroundings = surroundings_of(full) if full.has_own_tuner or full.has_own_assessor else None
        future = self._client.open(full.public_id, spec, chain(history, assessed), surroundings)

        def history_taken(answer: dict[str, Any]) -> None:  # noqa: ARG001
            state.has_taken_history = True

        self._when_done(experiment, state, future, history_taken)
        return experiment.pk in self._opened

    def ask(self, experiment: Experiment, first_number: int, count: int,
            done: Callable[[Proposals], None]) -> None:
        """Ask for parameter sets, which ``done`` gets. Where the experiment is waiting for some already, their coming
        brings a round."""
        if not self.ready(experiment):
            return
        state = self._opened[experiment.pk]
        if state.asked_at is not None or state.trials_come_next:
            state.wants_more = True
            return
        state.wants_more = False
        self._when_done(experiment, state, self._client.ask(state.public_id, first_number, count), self._asking(
            experiment, state, lambda answer: done(Proposals(
                answer["parameters"], answer["exhausted"], answer.get("agreements", ()),
                answer.get("continues") or [None] * len(answer["parameters"])))))

    def ask_for_trials(self, experiment: Experiment, first_number: int, trials: Sequence[str],
                       done: Callable[[list[dict[str, Any]]], None]) -> None:
        """Ask for a further parameter set for each of these running trials (ids), as ``TunerClient.ask_for_trials``;
        none: no trial waits for any. Proposals are numbered one after another, so only one question is open at a time.
        """
        known = self._opened.get(experiment.pk)
        if not trials:
            if known is not None:
                known.trials_come_next = False
            return
        if not self.ready(experiment):
            return
        state = self._opened[experiment.pk]
        if state.asked_at is not None:
            state.wants_more = state.trials_come_next = True
            return
        state.trials_come_next = False
        future = self._client.ask_for_trials(state.public_id, first_number, trials)
        answered = self._asking(experiment, state, lambda answer: done(answer["given"]))
        self._when_done(experiment, state, future, answered)

    def _asking(self, experiment: Experiment, state: _Opened, done: Callable[[dict[str, Any]], None]
                ) -> Callable[[dict[str, Any]], None]:
        """A question is open from now on. What to do with its answer."""
        state.asked_at = timezone.now()
        self._asked.append(state)

        def answered(answer: dict[str, Any]) -> None:
            state.asked_at = None
            self._deaths.pop(experiment.pk, None)
            if state.wants_more:
                doorbell.ring(experiment.pk)
            done(answer)

        return answered

    def asked_at(self, experiment_pk: int) -> datetime | None:
        """When it was asked for parameters that it has not given yet; None where nothing is awaited of it."""
        state = self._opened.get(experiment_pk)
        return state.asked_at if state is not None else None

    def tell(self, experiment: Experiment, events: list[dict[str, Any]], trials: Mapping[Any, str] | None = None
             ) -> None:
        """Tell ends whose events are recorded; a tuner that is not opened learns them from the record.

        ``trials``: id of the trial by the number of its event, where traces show whose it is.
        """
        self.recorded(experiment.pk, len(events))
        if (state := self._opened.get(experiment.pk)) is not None:
            def taken(answer: dict[str, Any]) -> None:  # noqa: ARG001
                state.untaken -= 1
                self._deaths.pop(experiment.pk, None)

            for event in events:
                told = {name: value for name, value in event.items() if name != "event"}
                state.untaken += 1
                future = self._client.tell(state.public_id, **told)
                if tracing.is_on():
                    self._trace(state, future, event.get("trial") or (trials or {}).get(event["number"], ""))
                self._when_done(experiment, state, future, taken)

    def _trace(self, state: _Opened, future: Future[dict[str, Any]], trial: str) -> None:
        """Record until when the tuner took it. One that is closed first, because its experiment is over, never does."""
        began = time.monotonic()

        def show(answered: Future[dict[str, Any]]) -> None:
            if not answered.cancelled():
                error = answered.exception(timeout=0)
                tracing.passed("tell", time.monotonic() - began, failed="" if error is None else type(error).__name__,
                               experiment=state.public_id, trial=trial, platform=self._platform)

        future.add_done_callback(show)

    def _tell_imported(self, experiment: Experiment, state: _Opened) -> bool:
        """Tell a living tuner of the user's own, as in NNI, what was brought from elsewhere. False where it is not
        that, or where somebody has added other events: then it is made again.
        """
        if not experiment.has_own_tuner:
            return False
        end = Experiment.objects.values_list("next_tuner_event", flat=True).get(pk=experiment.pk)
        found = imported_events(experiment, state.imports_from, end)
        if len(found) != end - state.known_events:
            return False
        state.imports_from = end
        self.tell(experiment, found)
        return True

    def recorded(self, experiment_pk: int, count: int) -> None:
        """This worker has added so many events to the history: the tuner knows them already, or is told."""
        if (state := self._opened.get(experiment_pk)) is not None:
            state.known_events += count

    def trial_end(self, experiment: Experiment, trial: str, succeeded: bool) -> None:
        if (state := self._opened.get(experiment.pk)) is not None:
            self._when_done(experiment, state, self._client.trial_end(state.public_id, trial, succeeded))

    def search_space_version(self, experiment_pk: int) -> int:
        return self._opened[experiment_pk].search_space_version

    def update_search_space(self, experiment: Experiment) -> None:
        state = self._opened[experiment.pk]
        state.search_space_version = experiment.search_space_version
        self.recorded(experiment.pk, 1)
        self._when_done(experiment, state,
                        self._client.update_search_space(state.public_id, experiment.search_space))

    def assessed_revision(self, experiment_pk: int) -> int:
        return self._opened[experiment_pk].assessed_revision

    def assess(self, experiment: Experiment, reports: list[dict[str, Any]], revision: int) -> None:
        """Hand over intermediate results up to ``revision``."""
        state = self._opened[experiment.pk]
        state.assessed_revision = revision
        self._when_done(experiment, state, self._client.intermediate(state.public_id, reports))

    def forget(self, experiment_pk: int) -> None:
        """Close the tuner, which is rebuilt from the events if it is needed again."""
        self._deaths.pop(experiment_pk, None)
        if (state := self._opened.pop(experiment_pk, None)) is not None:
            self._client.close_experiment(state.public_id)

    def finish(self, experiment_pk: int, more_seconds: float = 0.0) -> None:
        """As ``forget``, when the experiment is over: a tuner of the user's own gets what it was told until now, and is
        told of the end, in the time that ``TunerClient.finish_experiment`` gives it.
        """
        self._deaths.pop(experiment_pk, None)
        if (state := self._opened.pop(experiment_pk, None)) is None:
            return
        if (ending := self._client.finish_experiment(state.public_id, more_seconds)) is None:
            return
        self._exiting[experiment_pk] = state

        def ended() -> None:
            if self._exiting.get(experiment_pk) is not state:
                return  # it went on, and is over again
            try:
                self._exited(experiment_pk, ending.result(timeout=0))
            except DatabaseError:
                self._box.put(ended)  # what is not written down would be done again
                raise
            del self._exiting[experiment_pk]

        def laid_into_box(_: Future[TunerExit]) -> None:
            self._box.put(ended)
            self._wake()

        ending.add_done_callback(laid_into_box)

    @property
    def exiting(self) -> set[int]:
        """Experiments (primary keys) that are over and whose tuners have not ended yet."""
        return set(self._exiting)

    def close(self, *, is_handed_over: bool) -> None:
        """Waits a moment for the tuners of experiments that are over.

        ``is_handed_over``: another worker has made the tuners again already.
        """
        of_ended = [state.public_id for state in self._exiting.values()]
        for experiment_pk in list(self._opened):
            if is_handed_over:
                self.forget(experiment_pk)
            else:
                self.finish(experiment_pk)
        if is_handed_over:
            for public_id in of_ended:
                self._client.abandon_exit(public_id)
        elif of_ended:
            self._client.wait_for_exits(of_ended)
            self.collect()

    def _note_death(self, experiment: Experiment, state: _Opened, error: BaseException) -> None:
        """The tuner process died: the tuner is rebuilt, unless its own algorithm brings the process down each time."""
        if getattr(error, "suspect", None) == state.public_id:
            self._deaths[experiment.pk] = self._deaths.get(experiment.pk, 0) + 1
        if self._deaths.get(experiment.pk, 0) >= MOST_DEATHS:
            del self._deaths[experiment.pk]  # whoever resumes the experiment has mended it
            self._fail(experiment, Reason("tuner_died", times=MOST_DEATHS, error=str(error)), None)
        else:
            logger.warning("experiment %s: the tuner process died (%s); its tuner is rebuilt", state.public_id, error)

    def _when_done(self, experiment: Experiment, state: _Opened, future: Future[dict[str, Any]],
                   done: Callable[[dict[str, Any]], None] = lambda answer: None) -> None:
        def outcome() -> None:
            with log_ids(experiment=state.public_id):
                take_answer()

        def take_answer() -> None:
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
                logger.warning("experiment %s: its %s failed: %s\n%s", state.public_id, error.part, error,
                               error.traceback)
                code = "assessor_failed" if error.part == "assessor" else "tuner_failed"
                self._fail(experiment, Reason(code, error=str(error)),
                           state.untaken if state.has_taken_history else None)
            else:
                self._guard(experiment, "answer", lambda: act_on(answer))

        def act_on(answer: dict[str, Any]) -> None:
            state.stops.extend(answer.get("stop", ()))
            done(answer)
            if (chosen := answer.get("chosen")) is not None and chosen != state.chosen:
                self._note_choice(experiment, chosen)
                state.chosen = chosen
            if state.stops:
                self._stop(experiment, state.stops)
                state.stops = []  # not before it is written: the assessor names each once

        def laid_into_box(_: Future[dict[str, Any]]) -> None:
            self._box.put(outcome)
            if not self._is_collecting:
                self._wake()

        future.add_done_callback(laid_into_box)


def _name_of(tuner: dict[str, Any]) -> str:
    return str(tuner.get("registered_as") or tuner.get("class_name") or tuner.get("name"))
