"""``nni.utils`` of a trial: parameters over the defaults of a script."""

TYPE_CHECKING = False  # typing itself would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any


def merge_parameter(base_params: "Any", override_params: "dict[str, Any] | None") -> "Any":
    """Put the parameters of a trial over a script's own: attributes of an object (such as what ``argparse`` gives) or
    items of a dict, which is changed and returned. None changes nothing.

    Raises ValueError for a parameter that the script does not have, and for one of another type; an integer may stand
    for a float, and anything for None.
    """
    for name, value in ({} if override_params is None else override_params).items():
        if isinstance(base_params, dict):
            if name not in base_params:
                raise _unknown(name)
            base_params[name] = _of_type(name, base_params[name], value)
        else:
            if not hasattr(base_params, name):
                raise _unknown(name)
            setattr(base_params, name, _of_type(name, getattr(base_params, name), value))
    return base_params


def _unknown(name: str) -> "ValueError":
    return ValueError("the search space has the parameter %r, which the script does not have" % name)


def _of_type(name: str, default: "Any", value: "Any") -> "Any":
    if default is None or isinstance(value, type(default)):
        return value
    if isinstance(default, float) and isinstance(value, int):
        return float(value)
    raise ValueError("the parameter %r is of type %s in the script, and of type %s in the search space"
                     % (name, type(default).__name__, type(value).__name__))
