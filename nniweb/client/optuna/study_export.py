"""An experiment as a study of Optuna, for optuna-dashboard, ``trials_dataframe`` and Optuna's plots."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from nniweb.client.experiment import Experiment
from nniweb.client.optuna.study_run import directions_of
from nniweb.client.optuna.study_space import StudySpace
from nniweb.client.records import number_in, value_of

#: User attributes by which a trial of the study is known.
_TRIAL, _NUMBER, _STATUS = "trial", "sequence_id", "status"


def study_of(experiment: Experiment, storage: str | BaseStorage | None = None, *, study_name: str | None = None
             ) -> optuna.Study:
    """Write an experiment with all trials that have begun as a study, whichever tuner it has, and return the study.

    ``storage``: as of ``optuna.create_study``; None keeps it in memory. ``study_name``: else the experiment's name and
    id. Where the study is there already, it is brought up to date: new trials are added, running ones get their new
    values and ends. One process at a time. Raises ValueError where there is a study of that name with other
    directions, or whose trials had other options of a parameter, and what the client raises.
    """
    document = experiment.refresh().document
    directions = directions_of(document)
    study = optuna.create_study(storage=storage, directions=[StudyDirection[name.upper()] for name in directions],
                                study_name=study_name or f"{experiment.name} ({experiment.id})", load_if_exists=True)
    if [direction.name.lower() for direction in study.directions] != directions:
        raise ValueError(f"The study {study.study_name} has other directions. Give it another name.")
    study.set_user_attr("experiment", experiment.url)
    space = StudySpace(document["search_space"])
    names = [one["metric"] for one in document["objectives"] or []]
    known = {trial.user_attrs.get(_TRIAL): trial for trial in study.get_trials(deepcopy=False)}
    for row in json.loads(b"".join(experiment.export(intermediate=True)))["trials"]:
        if row["parameters"] is None or row["started_at"] is None is row["ended_at"]:
            continue
        trial = known.get(row["id"])
        if trial is None:
            study.add_trial(_trial(row, space, names))
        elif trial.state == TrialState.RUNNING:
            _update(study, trial, row, names)
    return study


def _trial(row: Mapping[str, Any], space: StudySpace, names: list[str]) -> FrozenTrial:
    placed = space.of_trial(row["parameters"])
    state, values = _end(row, names)
    trial = create_trial(
        state=state, values=values, params={name: value for name, (value, _) in placed.items()},
        distributions={name: distribution for name, (_, distribution) in placed.items()},
        user_attrs={_TRIAL: row["id"], _NUMBER: row[_NUMBER], _STATUS: row["status"]},
        intermediate_values={} if len(names) > 1 else dict(_intermediate(row)))
    trial.datetime_start = _time(row["started_at"]) or trial.datetime_start
    if trial.datetime_complete is not None:
        trial.datetime_complete = _time(row["ended_at"]) or trial.datetime_complete
    return trial


def _update(study: optuna.Study, trial: FrozenTrial, row: Mapping[str, Any], names: list[str]) -> None:
    storage = study._storage
    state, values = _end(row, names)
    try:
        for step, value in _intermediate(row) if len(names) <= 1 else ():
            if trial.intermediate_values.get(step) != value:
                storage.set_trial_intermediate_value(trial._trial_id, step, value)
        storage.set_trial_user_attr(trial._trial_id, _STATUS, row["status"])
        if state.is_finished():
            storage.set_trial_state_values(trial._trial_id, state, values)
    except UpdateFinishedTrialError:  # another process has brought it up to date meanwhile
        return


def _end(row: Mapping[str, Any], names: list[str]) -> tuple[TrialState, list[float] | None]:
    """State and values in Optuna's words. A trial that was stopped early has its last intermediate result as value."""
    if row["ended_at"] is None:
        return TrialState.RUNNING, None
    final = [row["final_number"], *(row["metrics"].get(name) for name in names[1:])]
    values = [float(value) for value in final if value is not None and math.isfinite(value)]
    if row["status"] == "SUCCEEDED" and len(values) == len(final):
        return TrialState.COMPLETE, values
    if row["status"] == "EARLY_STOPPED" and len(names) <= 1:
        reported = [value for _, value in _intermediate(row)]
        return TrialState.PRUNED, reported[-1:] or None
    return TrialState.FAIL, None


def _intermediate(row: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    for step, text in enumerate(row["intermediate"]):
        number = number_in(value_of(text))
        if number is not None:
            yield step, number


def _time(text: str | None) -> datetime.datetime | None:
    """In the local time without a zone, which Optuna uses."""
    return None if text is None else datetime.datetime.fromisoformat(text).astimezone().replace(tzinfo=None)
