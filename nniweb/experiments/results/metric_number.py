"""The numbers in a reported metric."""

import json
import math
from typing import Any

#: NNI's name of the metric that counts; of an object with several, the member of this name.
DEFAULT = "default"


def number_in(value: str, main: str = DEFAULT) -> float | None:
    """The metric a tuner, an assessor or a chart uses; None where there is no finite one.

    ``value`` is the JSON text the trial reported. NNI's rule: a number, or an object whose member
    "default" (here: the main metric) is a number. A bool is not one. NaN and the infinities are kept as text only.
    """
    number, named = numbers_in(value)
    return number if named is None else named.get(main)


def numbers_in(value: str) -> tuple[float | None, dict[str, float] | None]:
    """The one number it is, or all finite numbers in the object it is, by name (None where it is no object)."""
    try:
        number = float(value)  # the usual case, ten times as fast as the parser
    except ValueError:
        pass
    else:
        return (number if math.isfinite(number) else None), None
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(found, dict):
        return _finite(found), None
    return None, {name: finite for name, item in found.items() if (finite := _finite(item)) is not None}


def _finite(found: Any) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
