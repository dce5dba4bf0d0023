"""The search space of NNI's BatchTuner: a list of parameter sets, written as the options of one choice."""

from nniweb.tuning.search_space.problem import Problem
from nniweb.tuning.search_space.space import Choice, SearchSpace


def list_problems(space: SearchSpace) -> list[Problem]:
    """What keeps a search space from being such a list."""
    if len(space.parameters) != 1:
        return [Problem("", "BatchTuner needs exactly one parameter, of type choice, whose options are the parameter "
                            f"sets to run; there are {len(space.parameters)} parameters")]  # fmt: skip
    [(name, parameter)] = space.parameters.items()
    if not isinstance(parameter, Choice) or not all(isinstance(option, dict) for option in parameter.options):
        return [Problem(name, "BatchTuner needs a choice whose options are objects, each a whole parameter set, such "
                              'as {"lr": 0.1, "layers": 3}')]  # fmt: skip
    return []
