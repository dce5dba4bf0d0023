"""Which keyword arguments a method of the user's class takes. NNI's releases pass different ones."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def taken(method: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``offered`` that the method takes, by name or as ``**kwargs``."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # written in C
        return dict(offered)
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(offered)
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return {name: value for name, value in offered.items() if name in names}
