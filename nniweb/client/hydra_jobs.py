"""Jobs of a Hydra multirun as proposals of an experiment: overrides as parameters, and a search space that has them.

Knows nothing of Hydra; the launcher in ``hydra_plugins`` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Numbers whose text is found again from the number. 1.0 is not among them: on its way it may become 1.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_REAL = re.compile(r"-?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")


def parameters_of(overrides: Sequence[str]) -> dict[str, Any]:
    """By what stands before ``=`` the value: a number where it is one, else its text. ``~name`` has the value "".

    Raises ValueError where two overrides have the same name.
    """
    parameters: dict[str, Any] = {}
    for override in overrides:
        name, _, text = override.partition("=")
        if name in parameters:
            raise ValueError(f"The job has two overrides of {name}.")
        parameters[name] = _value(text)
    return parameters


def _value(text: str) -> Any:
    if _WHOLE.fullmatch(text) and text != "-0":
        return int(text)
    if _REAL.fullmatch(text):
        number = float(text)
        if abs(number) < 1e15 and not number.is_integer():
            return number
    return text


def search_space_of(jobs: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A search space of which the parameters of all jobs are points. ``before``: one that it must contain, too.

    A name that some jobs do not have can be None.
    """
    before = before or {}
    names = list(dict.fromkeys([*before, *(name for job in jobs for name in job)]))
    return {name: _parameter([job.get(name) for job in jobs], before.get(name), is_new=bool(before)) for name in names}


def _parameter(values: list[Any], before: Mapping[str, Any] | None, *, is_new: bool) -> dict[str, Any]:
    known: list[Any] = []
    if before is None and is_new:
        known = [None]  # earlier jobs did not have it
    elif before is not None and before["_type"] == "choice":
        known = list(before["_value"])
    elif before is not None:
        low, high = before["_value"]
        known = [low, high - 1] if before["_type"] == "randint" else [float(low), float(high)]
    everything = [*known, *values]
    if all(isinstance(value, int) for value in everything):
        return {"_type": "randint", "_value": [min(everything), max(everything) + 1]}
    if all(isinstance(value, int | float) for value in everything):
        return {"_type": "uniform", "_value": [min(everything), max(everything)]}
    return {"_type": "choice", "_value": list(dict.fromkeys(everything))}


def with_all_names(job: Mapping[str, Any], search_space: Mapping[str, Any]) -> dict[str, Any]:
    """The job's parameters as a point of the search space."""
    return {name: job.get(name) for name in search_space}


def returned(final_value: Any) -> Any:
    """What the job's function returned, from the final result of its trial (``nni.hydra.result_of``)."""
    if isinstance(final_value, Mapping):
        numbers = final_value.get("returned")
        return tuple(numbers) if numbers is not None else final_value.get("default")
    return final_value
