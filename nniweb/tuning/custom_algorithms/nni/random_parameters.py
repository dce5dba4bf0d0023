"""What ``nni.utils`` has for algorithms that go through a search space as it is written, such as NNI's own evolution.

A place in the space has a name: ``root[layers]-choice[1][size]-randint`` is the parameter ``size`` of the second option
of the choice ``layers``.
"""

import copy
from collections.abc import Mapping
from typing import Any

from numpy.random import RandomState

from nniweb.tuning.custom_algorithms.nni import parameter_expressions

_ROOT, _TYPE, _VALUE, _INDEX, _NAME = "root", "_type", "_value", "_index", "_name"


def json2space(x: Any, oldy: Any = None, name: str = _ROOT) -> list[str]:
    """The names of all parameters of a search space, inner ones first. With ``oldy`` (drawn by ``json2parameter``) only
    of the options that were chosen in it. Raises RuntimeError for a nested option without a name.
    """
    if isinstance(x, dict) and _TYPE in x:
        name = f"{name}-{x[_TYPE]}"
        if x[_TYPE] != "choice":
            return [name]
        if oldy is None:
            return [*json2space(x[_VALUE], None, name), name]
        chosen = oldy[_INDEX]
        return [*json2space(x[_VALUE][chosen], oldy[_VALUE], f"{name}[{chosen}]"), name]
    return [found for key, inner in _inner(x)
            for found in json2space(inner, oldy[key] if oldy else None, f"{name}[{key}]")]


def json2parameter(x: Any, is_rand: Mapping[str, bool], random_state: RandomState, oldy: Any = None, Rand: bool = False,
                   name: str = _ROOT) -> Any:
    """Parameters of a search space, a choice as ``{"_index", "_value"}``. Those whose names ``is_rand`` says are drawn
    anew, and all that depend on them; the others are those of ``oldy``. With ``Rand`` all are drawn. Raises
    RuntimeError for a nested option without a name.
    """
    if isinstance(x, dict) and _TYPE in x:
        name = f"{name}-{x[_TYPE]}"
        if not (Rand or is_rand[name]):
            return copy.deepcopy(oldy)
        if x[_TYPE] != "choice":
            return getattr(parameter_expressions, x[_TYPE])(*x[_VALUE], random_state)
        chosen = random_state.randint(len(x[_VALUE]))
        drawn = json2parameter(x[_VALUE][chosen], is_rand, random_state, None, True, f"{name}[{chosen}]")
        return {_INDEX: chosen, _VALUE: drawn}
    if not isinstance(x, dict | list):
        return copy.deepcopy(x)
    found = {key: json2parameter(inner, is_rand, random_state, oldy[key] if oldy else None, Rand, f"{name}[{key}]")
             for key, inner in _inner(x)}
    return found if isinstance(x, dict) else list(found.values())


def _inner(x: Any) -> list[tuple[Any, Any]]:
    """What a group or a list of options holds, by key or index."""
    if isinstance(x, dict):
        return list(x.items())
    if not isinstance(x, list):
        return []
    if any(isinstance(option, dict) and _NAME not in option for option in x):
        raise RuntimeError("an option of a choice that has parameters of its own needs the key '_name'")
    return list(enumerate(x))
