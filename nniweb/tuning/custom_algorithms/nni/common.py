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


_enabled: set[str] = set()


def enable_multi_phase() -> None:
    """For this process: a running trial may ask for further parameters."""
    _enabled.add("multi_phase")


def multi_phase_enabled() -> bool:
    """Whether a running trial may ask for further parameters (``multiPhase: true``)."""
    return "multi_phase" in _enabled


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
