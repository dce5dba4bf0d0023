"""``nni.common`` and ``nni.runtime.common``: the JSON text of messages."""

import json
from typing import Any

import numpy as np


def dump(value: Any, **more: Any) -> str:
    """JSON text; numpy's numbers and arrays become plain ones. ``more`` goes to ``json.dumps``."""
    return json.dumps(value, default=_plain, **more)


def load(text: Any, **_: Any) -> Any:
    """What ``text`` says; anything but text is returned as it is, because releases differ in what they had decoded."""
    return json.loads(text) if isinstance(text, str | bytes) else text


def multi_phase_enabled() -> bool:
    """A trial has one set of parameters."""
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
