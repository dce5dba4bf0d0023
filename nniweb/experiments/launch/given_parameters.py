"""The text of a trial's parameter file."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.models import Experiment, TrialParameters
from nniweb.tuning.algorithms import find_tuner
from nniweb.tuning.search_space.parameter_list import as_the_trial_gets_it
from trainingservice.trial_job import parameter_text


def parameters_of_the_trial(experiment: Experiment, value: Any) -> Any:
    """What ``nni.get_next_parameter()`` returns of a stored parameter set."""
    name = experiment.tuner.get("name")
    if not name or not find_tuner(name).takes_a_list:
        return value
    return as_the_trial_gets_it(value, experiment.search_space)


def given_text(experiment: Experiment, given: TrialParameters | None, *, source: str = "algorithm") -> str:
    """As NNI's parameter file has it. ``given`` None: the trial has no parameters."""
    if given is None:
        return parameter_text({}, None, source=source)
    return parameter_text(parameters_of_the_trial(experiment, given.value), given.parameter_id, index=given.index,
                          source=source)
