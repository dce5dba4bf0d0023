"""A script with a search of Optuna that stays as it is: its trials run on our platforms.

``Study.optimize`` is replaced: the study, its sampler and its storage are those of the script, in this process. Each of
its trials is a proposal of an experiment, whose trials run the script anew up to that call (``nni.optuna``). A search
space need not be known: the first trial says which parameters there are, as Optuna itself finds out.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    json_to_distribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from nniweb.client.errors import Conflict
from nniweb.client.experiment import Experiment, Trial
from nniweb.client.own_server import connect
from nniweb.client.records import number_in
from trialkeeper.nni.optuna import ABOUT, NUMBER

_log = optuna.logging.get_logger(__name__)

#: Seconds between two looks for results.
LOOK_EVERY = 1.0


@dataclass
class ScriptSearch:
    """One run of a script. ``optimize`` is put in the place of ``Study.optimize``."""

    script: Path
    arguments: list[str]
    #: The folder that is sent as code.
    code: Path
    #: What runs Python on the platform.
    python: str = "python3"
    #: Fields of a config file: platform, concurrency, retries and others.
    given: Mapping[str, Any] = field(default_factory=dict)
    #: In place of what the script says: how many trials, and for how many seconds new ones are asked for.
    trials: int | None = None
    timeout: float | None = None
    #: Calls so far.
    _calls: int = 0

    def optimize(self, study: optuna.Study, n_trials: int | None, timeout: float | None, n_jobs: int,
                 catch: Any, callbacks: Iterable[Callable[..., None]]) -> None:
        """Run the trials of a study, as its own method does, until there are enough.

        Raises RuntimeError where a trial has failed and ``catch`` is empty, as Optuna raises what the objective does.
        """
        experiment = self._launched(study, n_jobs)
        _log.info("The trials of %s run as %s", study.study_name, experiment.url)
        run = _Run(study, experiment, bool(catch), list(callbacks))
        try:
            run.until(n_trials if self.trials is None else self.trials,
                      timeout if self.timeout is None else self.timeout)
        finally:
            with contextlib.suppress(Exception):  # what was raised above is what matters
                experiment.propose(complete=True)

    def _launched(self, study: optuna.Study, n_jobs: int) -> Experiment:
        call, self._calls = self._calls, self._calls + 1
        program = ["-m", "nni.optuna", str(call), str(self.script.relative_to(self.code)), *self.arguments]
        modes = [direction.name.lower() for direction in study.directions]
        config = {"experimentName": self.script.stem, "trainingService": {"platform": "local"},
                  "trialConcurrency": n_jobs if n_jobs > 0 else os.cpu_count() or 1, **self.given,
                  "tuner": {"name": "External", "classArgs": {"optimize_mode": modes[0]}},
                  "searchSpace": _search_space({}), "trialCommand": " ".join([self.python, *map(shlex.quote, program)])}
        if len(modes) > 1:
            config["objectives"] = [{"metric": f"value_{place}" if place else "default", "optimizeMode": mode}
                                    for place, mode in enumerate(modes)]
        return connect().launch(config, code=str(self.code))


class _Run:
    def __init__(self, study: optuna.Study, experiment: Experiment, may_fail: bool,
                 callbacks: list[Callable[..., None]]) -> None:
        self._study, self._experiment, self._may_fail, self._callbacks = study, experiment, may_fail, callbacks
        #: The distribution of each parameter that a trial has asked for.
        self._known: dict[str, BaseDistribution] = {}
        self._space = _search_space({})
        #: Trials that have no result yet, by their keys.
        self._open: dict[str, optuna.Trial] = {}

    def until(self, n_trials: int | None, timeout: float | None) -> None:
        """Returns when all have ended that were wanted, or when the experiment has ended. Raises RuntimeError."""
        begun, asked, after = time.monotonic(), 0, -1
        self._study._stop_flag = False
        self._study._thread_local.in_optimize_loop = True  # callbacks may call Study.stop
        try:
            while True:
                may_ask = not self._study._stop_flag and (timeout is None or time.monotonic() - begun < timeout)
                left = (n_trials - asked if n_trials is not None else 10_000) if may_ask else 0
                if left > 0:
                    asked += self._ask(left)
                if left <= 0 and not self._open:
                    return
                has_ended = self._experiment.refresh().has_ended
                wait = 0.0 if has_ended else LOOK_EVERY
                results, after = self._experiment.results(after, wait=wait, every=LOOK_EVERY)
                for result in results:
                    self._take(result)
                if has_ended and not results:
                    return
        finally:
            self._study._thread_local.in_optimize_loop = False
            self._give_up()

    def _ask(self, most: int) -> int:
        """Propose as much as could run now; one alone as long as nothing is known of the parameters."""
        wanted = min(self._experiment.wanted(), most)
        if not self._known:
            wanted = min(wanted, 0 if self._open else 1)
        if wanted <= 0:
            return 0
        trials = [self._study.ask() for _ in range(wanted)]
        proposals = [self._proposal(trial) for trial in trials]
        space = _search_space(self._known, proposals)
        if space != self._space:
            self._experiment.change(search_space=space)
            self._space = space
        keys = [str(trial.number) for trial in trials]
        try:
            self._experiment.propose(*({name: one.get(name) for name in space} for one in proposals), keys=keys)
        except Conflict:  # its limit is reached, or a person has paused or stopped it
            for trial in trials:
                self._study.tell(trial.number, state=TrialState.FAIL)
        else:
            self._open.update(zip(keys, trials, strict=True))
        return wanted

    def _proposal(self, trial: optuna.Trial) -> dict[str, Any]:
        """A value for each known parameter, whether the trial will ask for it or not. Nothing is written to the study.
        """
        frozen = self._study._storage.get_trial(trial._trial_id)
        fixed = frozen.system_attrs.get("fixed_params") or {}  # of Study.enqueue_trial
        values: dict[str, Any] = {}
        for name, distribution in self._known.items():
            if name in fixed:
                values[name] = fixed[name]
            elif distribution.single():
                values[name] = _single(distribution)
            elif name in trial.relative_params and distribution._contains(
                    distribution.to_internal_repr(trial.relative_params[name])):
                values[name] = trial.relative_params[name]
            else:
                values[name] = self._study.sampler.sample_independent(self._study, frozen, name, distribution)
        unknown = {name: value for name, value in fixed.items() if name not in values}
        return {NUMBER: trial.number, **{name: _sent(value, self._known.get(name)) for name, value in
                                         {**values, **unknown}.items()}}

    def _take(self, result: Mapping[str, Any]) -> None:
        trial = self._open.pop(result["key"] or "", None)
        if trial is None:
            return
        final = self._experiment.trial(result["trial"]).final_value
        about = final.get(ABOUT) if isinstance(final, Mapping) else None
        storage, trial_id = self._study._storage, trial._trial_id
        for name, (internal, text) in ((about or {}).get("params") or {}).items():
            distribution = json_to_distribution(text)
            storage.set_trial_param(trial_id, name, internal, distribution)
            self._known[name] = distribution
        for name, value in ((about or {}).get("user_attrs") or {}).items():
            storage.set_trial_user_attr(trial_id, name, value)
        if len(self._study.directions) == 1:
            for step, number in self._intermediate(result["trial"]):
                storage.set_trial_intermediate_value(trial_id, step, number)
        self._end(trial, result, final, about)
        for callback in self._callbacks:
            callback(self._study, storage.get_trial(trial_id))
        if result["status"] == "FAILED" and not self._may_fail:
            raise RuntimeError(f"Trial {trial.number} has failed. Its page shows its output: {self._experiment.url}")

    def _end(self, trial: optuna.Trial, result: Mapping[str, Any], final: Any, about: Mapping[str, Any] | None) -> None:
        if result["status"] == "EARLY_STOPPED" or about is not None and about.get("is_pruned"):
            self._study.tell(trial.number, state=TrialState.PRUNED)
            _log.info("Trial %d pruned.", trial.number)
        elif result["status"] == "SUCCEEDED" and about is not None:
            values = [float(final[f"value_{place}" if place else "default"])
                      for place in range(len(self._study.directions))]
            self._study.tell(trial.number, values)
            _log.info("Trial %d finished with %s and parameters: %s.", trial.number, f"values: {values}" if values[1:]
                      else f"value: {values[0]}", self._study._storage.get_trial(trial._trial_id).params)
        else:
            self._study.tell(trial.number, state=TrialState.FAIL)
            _log.warning("Trial %d is %s and has no result.", trial.number, result["status"])

    def _intermediate(self, trial: str) -> Iterable[tuple[int, float]]:
        for metric in Trial(self._experiment._client, {"id": trial}).metrics():
            number = number_in(metric["value"])
            if metric["kind"] == "PERIODICAL" and number is not None:
                yield int(metric["sequence"]), number

    def _give_up(self) -> None:
        """No result follows for what is left."""
        for trial in self._open.values():
            with contextlib.suppress(UpdateFinishedTrialError):
                self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        self._open = {}


def _single(distribution: Any) -> Any:
    return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low


def _sent(value: Any, distribution: BaseDistribution | None) -> Any:
    """A value as the trial is given it: its JSON text where it is no plain value, or where two would be the same."""
    if isinstance(distribution, CategoricalDistribution):
        return value if _are_plain(distribution.choices) else json.dumps(value)
    if isinstance(distribution, IntDistribution):
        return int(value)
    if distribution is None:
        return value if _are_plain((value,)) else json.dumps(value)
    return float(value)


def _are_plain(choices: Iterable[Any]) -> bool:
    choices = list(choices)
    return all(isinstance(choice, str | int) or isinstance(choice, float) and math.isfinite(choice)
               for choice in choices) and len(set(choices)) == len(choices)


def _search_space(known: Mapping[str, BaseDistribution], proposals: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """In NNI's form. Values of names that are not known are options: those of enqueued trials."""
    space: dict[str, Any] = {NUMBER: {"_type": "randint", "_value": [0, 10 ** 9]}}
    for name, distribution in known.items():
        if isinstance(distribution, CategoricalDistribution) or distribution.single():
            choices = getattr(distribution, "choices", None) or [_single(distribution)]
            space[name] = {"_type": "choice", "_value": [_sent(choice, distribution) for choice in choices]}
        elif isinstance(distribution, IntDistribution):
            space[name] = {"_type": "randint", "_value": [distribution.low, distribution.high + 1]}
        elif isinstance(distribution, FloatDistribution):
            space[name] = {"_type": "loguniform" if distribution.log else "uniform",
                           "_value": [distribution.low, distribution.high]}
    proposals = list(proposals)
    for name in dict.fromkeys(name for proposal in proposals for name in proposal if name not in space):
        values = [proposal.get(name) for proposal in proposals]
        space[name] = {"_type": "choice", "_value": [value for place, value in enumerate(values)
                                                     if value not in values[:place]]}
    return space
