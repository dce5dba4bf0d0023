"""Parameters of another search space in this one: by name, each value as far as this space has it.

A number goes to the nearest value of a quantized parameter, or to the nearest whole number, where it lies inside the
range; its coordinate then follows from the parameter's distribution here, so that logarithmic scales are compared as
such. A value outside the range is not moved to the border: nothing was measured there.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nniweb.tuning.search_space.space import (
    NAME_KEY,
    NestedChoice,
    Numeric,
    Parameter,
    Parameters,
    RandInt,
    SearchSpace,
)

#: What keeps a value from being used. The first two leave the rest of the result usable.
MISSING, UNKNOWN, OUTSIDE, OTHER_TYPE, NO_OPTION = "missing", "unknown", "outside", "other_type", "no_option"


@dataclass
class MappedParameters:
    """``parameters``: those that this space has, too. ``misfits``: by path of a parameter, one of the codes above."""

    parameters: Parameters = field(default_factory=dict)
    misfits: dict[str, str] = field(default_factory=dict)

    @property
    def is_usable(self) -> bool:
        """Whether something is known, and nothing of it is a value that this space does not have."""
        return bool(self.parameters) and not {OUTSIDE, OTHER_TYPE, NO_OPTION} & set(self.misfits.values())


def map_parameters(space: SearchSpace, given: Mapping[str, Any]) -> MappedParameters:
    """What a result with the parameters ``given`` says in this space."""
    found = MappedParameters()
    found.parameters = _inside(space, given, "", found.misfits)
    return found


def _inside(space: SearchSpace, given: Mapping[str, Any], prefix: str, misfits: dict[str, str]) -> Parameters:
    point: Parameters = {}
    for name, parameter in space.parameters.items():
        path = f"{prefix}{name}"
        if name not in given:
            misfits[path] = MISSING
            continue
        value = given[name]
        if isinstance(parameter, NestedChoice):
            chosen = SearchSpace({name: parameter}).coordinates({name: value}).get((name,))
            if chosen is None:
                misfits[path] = NO_OPTION if isinstance(value, Mapping) else OTHER_TYPE
                continue
            option = parameter.options[int(chosen)]
            point[name] = {NAME_KEY: option.name, **_inside(option.space, value, f"{path}.", misfits)}
            continue
        misfit, here = _nearest(parameter, value)
        if misfit:
            misfits[path] = misfit
        else:
            point[name] = here
    misfits |= {f"{prefix}{name}": UNKNOWN for name in given
                if name not in space.parameters and not (prefix and name == NAME_KEY)}
    return point


def _nearest(parameter: Parameter, value: Any) -> tuple[str, Any]:
    """A code ("" where it fits) and the value here."""
    if not isinstance(parameter, Numeric | RandInt):
        fits = bool(SearchSpace({"one": parameter}).coordinates({"one": value}))
        return ("", value) if fits else (NO_OPTION, None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return OTHER_TYPE, None
    if isinstance(parameter, RandInt):
        whole = round(value)
        return ("", whole) if parameter.low <= whole < parameter.high else (OUTSIDE, None)
    if parameter.holds(value):
        return "", value
    if parameter.q is None or math.isinf(value / parameter.q):
        return OUTSIDE, None
    near = round(value / parameter.q) * parameter.q
    return ("", near) if parameter.holds(near) else (OUTSIDE, None)
