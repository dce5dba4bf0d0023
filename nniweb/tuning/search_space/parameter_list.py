"""The search space of NNI's BatchTuner: a list of parameter sets, written as the options of one choice.

An option that is an object is a whole parameter set. NNI hands any other option to its trial as it is, without a name.
Here such a set is ``{parameter: option}`` everywhere but in the trial, so that it has a name in tables and charts.
"""

from collections.abc import Mapping
from typing import Any

from nniweb.tuning.search_space.problem import Problem
from nniweb.tuning.search_space.space import Choice, Parameters, SearchSpace

_FORM = ('BatchTuner needs a choice whose options are objects, each a whole parameter set, such as '
         '{"lr": 0.1, "layers": 3}, or whose options are all plain values')


def list_problems(space: SearchSpace, *, by_name: bool = False) -> list[Problem]:
    """What keeps a search space from being such a list. ``by_name``: trials need the names of parameters."""
    if len(space.parameters) != 1:
        return [Problem("", "BatchTuner needs exactly one parameter, of type choice, whose options are the parameter "
                            f"sets to run; there are {len(space.parameters)} parameters")]  # fmt: skip
    [(name, parameter)] = space.parameters.items()
    if not isinstance(parameter, Choice) or len({isinstance(option, dict) for option in parameter.options}) > 1 \
            or by_name and not all(isinstance(option, dict) for option in parameter.options):
        return [Problem(name, _FORM)]
    return []


def sets_of(space: SearchSpace) -> list[Parameters]:
    """The parameter sets of a space without problems, in their order."""
    [(name, parameter)] = space.parameters.items()
    assert isinstance(parameter, Choice)
    return [option if isinstance(option, dict) else {name: option} for option in parameter.options]


def as_the_trial_gets_it(parameters: Any, raw_space: Mapping[str, Any]) -> Any:
    """A set as NNI hands it over: a plain option without its name. ``raw_space``: JSON of a space without problems."""
    [(name, parameter)] = raw_space.items()
    has_plain_options = not any(isinstance(option, dict) for option in parameter["_value"])
    return parameters[name] if has_plain_options and isinstance(parameters, dict) and parameters.keys() == {name} \
        else parameters
