"""A study of Optuna that leads an experiment with the tuner External: Optuna samples, and platforms run the trials.

Nothing is kept but the study itself: a trial of the study is a proposal whose key is made of the study's name and the
trial's number. So this may end at any point and be started anew, also several times at once with one storage.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from nniweb.client.errors import Conflict, Refused
from nniweb.client.experiment import Experiment, Trial
from nniweb.client.optuna.study_space import StudySpace
from nniweb.client.records import number_in

#: Seconds between two questions for results.
LOOK_EVERY = 2.0
#: So many points in a row may violate constraints of the search space.
MOST_REFUSED = 100
#: A trial of the study whose parameters are incomplete for so long was left behind.
LEFT_BEHIND = datetime.timedelta(minutes=10)
_LONGEST_NAME = 64


def run_study(study: optuna.Study, experiment: Experiment, *, every: float = LOOK_EVERY) -> None:
    """Run the trials of a study as trials of the experiment, until that has ended: its ``maxTrialNumber`` and
    ``maxExperimentDuration`` say when, or a person stops it.

    May be called again after an interruption with a study of the same storage and name, and in several processes at
    once. ``every``: seconds between two looks. Raises ValueError where study and experiment do not fit together, and
    what the client raises.
    """
    leader = _Leader(study, experiment)
    leader.propose_again()
    after = -1
    while True:
        has_ended = experiment.refresh().has_ended
        results, after = experiment.results(after, wait=0.0 if has_ended else every, every=every)
        leader.tell(results)
        if has_ended and not results:
            leader.give_up()
            return
        if not has_ended:
            leader.ask()


class _Leader:
    def __init__(self, study: optuna.Study, experiment: Experiment) -> None:
        self._study, self._experiment = study, experiment
        document = experiment.refresh().document
        self._space = StudySpace(document["search_space"])
        self._space.must_be_sampled()
        _must_agree(study, document)
        name = study.study_name
        self._prefix = f"{name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()}/"
        self._refused = 0  # in a row

    def ask(self) -> None:
        """Propose as much as could run now."""
        for _ in range(self._experiment.wanted()):
            trial = self._study.ask()
            parameters = self._space.suggest(trial)
            try:
                self._experiment.propose(parameters, keys=[self._key(trial.number)])
                self._refused = 0
            except Conflict:  # its limit is reached, or it was paused or stopped
                self._fail(trial.number)
                return
            except Refused as refused:  # a constraint
                _must_concern_proposals(refused)
                self._fail(trial.number)
                self._refused += 1
                if self._refused >= MOST_REFUSED:
                    raise

    def propose_again(self) -> None:
        """What an earlier run asked for: it may have ended before it was sent. Known ones are found by their keys."""
        for trial in self._running():
            parameters = self._space.proposed(trial.params)
            if parameters is None:
                begun = trial.datetime_start
                if begun is None or datetime.datetime.now() - begun > LEFT_BEHIND:
                    self._fail(trial.number)
                continue
            try:
                self._experiment.propose(parameters, keys=[self._key(trial.number)])
            except Refused as refused:
                _must_concern_proposals(refused)
                self._fail(trial.number)

    def tell(self, results: list[dict[str, Any]]) -> None:
        """Tell the study of results; of those that it knows nothing happens."""
        if not results:
            return
        running = {self._key(trial.number): trial for trial in self._running()}
        for result in results:
            trial = running.get(result["key"])
            if trial is not None:
                with contextlib.suppress(UpdateFinishedTrialError):  # another process has told it meanwhile
                    self._tell(trial, result)

    def give_up(self) -> None:
        """No result follows for what is left."""
        for trial in self._running():
            if self._space.proposed(trial.params) is not None:
                self._fail(trial.number)

    def _tell(self, trial: FrozenTrial, result: Mapping[str, Any]) -> None:
        values = result["values"] or [result["value"]]
        if len(self._study.directions) == 1:  # Optuna has no intermediate values of several objectives
            for step, value in self._intermediate(result["trial"]):
                self._study._storage.set_trial_intermediate_value(trial._trial_id, step, value)
        if result["status"] == "SUCCEEDED" and None not in values:
            self._study.tell(trial.number, values, skip_if_finished=True)
        elif result["status"] == "EARLY_STOPPED" and len(self._study.directions) == 1:
            self._study.tell(trial.number, state=TrialState.PRUNED, skip_if_finished=True)
        else:
            self._fail(trial.number)

    def _intermediate(self, trial: str) -> Iterator[tuple[int, float]]:
        for metric in Trial(self._experiment._client, {"id": trial}).metrics():
            number = number_in(metric["value"])
            if metric["kind"] == "PERIODICAL" and number is not None:
                yield int(metric["sequence"]), number

    def _fail(self, number: int) -> None:
        with contextlib.suppress(UpdateFinishedTrialError):
            self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)

    def _running(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number}"


def _must_concern_proposals(refused: Refused) -> None:
    """Raises what was refused for another reason than the proposal or the experiment's state: the token has ended, or
    does not allow it. What the study asked for may run, or is proposed the next time.
    """
    if refused.status not in (400, 409):
        raise refused


def _must_agree(study: optuna.Study, document: Mapping[str, Any]) -> None:
    """Raises ValueError where they search for different things."""
    wanted = directions_of(document)
    given = [direction.name.lower() for direction in study.directions]
    if given != wanted:
        raise ValueError(f"The study's directions are {', '.join(given)}, and the experiment's {', '.join(wanted)}. "
                         "Change the study's, or optimize_mode of the tuner's classArgs or of the objectives.")


def directions_of(document: Mapping[str, Any]) -> list[str]:
    """Of an experiment, in Optuna's words, for each objective."""
    return [str(one["optimize_mode"]) for one in document["objectives"] or [document]]
