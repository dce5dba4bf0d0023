"""What a class of the user's own proposes, as plain JSON."""

import json
from collections.abc import Mapping

from nniweb.tuning.custom_algorithms.nni.common import dump
from nniweb.tuning.search_space.space import Parameters


def plain_parameters(made: object) -> Parameters:
    """A copy of a parameter set that shares nothing with the class. Numpy's numbers become plain ones; tuples and
    numpy's arrays become lists. Raises TypeError and ValueError with a sentence.
    """
    if not isinstance(made, Mapping):
        raise TypeError(f"a parameter set must be a dict with the parameters by name, not {made!r:.200} "
                        f"({type(made).__name__})")
    try:
        parameters: Parameters = json.loads(dump(dict(made), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise type(error)(f"the parameter set {made!r:.200} cannot be written as JSON: {error}") from error
    return parameters
