"""A reported value as JSON text, in the form NNI gives it (numpy arrays, sets, complex numbers, other objects)."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

#: Longest pickle of an object that has no form of its own, in bytes, as in NNI.
MAX_PICKLE_BYTES = 4096


def encode(value: object, json: "ModuleType") -> str:
    """The JSON text. ``json``: the module, which the caller has loaded. Raises TypeError, ValueError."""
    text: str = json.dumps(value, default=_encode_object)
    return text


def _encode_object(value: "Any") -> object:
    package = type(value).__module__.partition(".")[0]
    if package == "numpy" and hasattr(value, "dtype"):  # numpy is not imported here: the value brings it
        if getattr(value, "shape", ()) == () and not hasattr(value, "__array_finalize__"):
            return value.item()
        if type(value).__name__ == "ndarray":
            form = {"__ndarray__": value.tolist(), "dtype": str(value.dtype), "shape": list(value.shape)}
            if len(value.shape) > 1:  # only then there is an order of the memory
                form["Corder"] = bool(value.flags["C_CONTIGUOUS"])
            return form
        return value.item()
    if isinstance(value, complex):
        return {"__complex__": [value.real, value.imag]}
    if isinstance(value, (set, frozenset)):
        try:
            return {"__set__": sorted(value)}
        except TypeError:
            return {"__set__": list(value)}
    if callable(getattr(value, "tolist", None)) and hasattr(value, "shape"):
        return value.tolist()  # tensors of torch, jax, ...: a number or nested lists
    import base64
    import pickle
    data = pickle.dumps(value)
    if len(data) > MAX_PICKLE_BYTES:
        raise ValueError("a %s is too large to be reported (%d bytes); report numbers, texts, lists or dicts"
                         % (type(value).__name__, len(data)))
    return {"__nni_obj__": base64.b64encode(data).decode("ascii")}
