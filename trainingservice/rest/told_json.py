"""JSON that a trial, a machine or a cluster tells: nested too deeply, it is as wrong as any other text that is none."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """As ``json.loads``, which lets a RecursionError out for many brackets. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
