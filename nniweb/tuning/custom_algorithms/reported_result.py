"""What a trial reported, for algorithms that get it whole."""

import json
import math
from collections.abc import Mapping
from typing import Any


def reported(text: str) -> Any:
    """The value; None for null, NaN, the infinities, and what is no JSON: those are no results."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if isinstance(found, float) and not math.isfinite(found) else found


def result_of(event: Mapping[str, Any]) -> Any:
    """What a ``tell`` event says of a result, objects whole; None where that is no result."""
    return event["value"] if event.get("result") is None else reported(event["result"])


def is_imported(event: Mapping[str, Any]) -> bool:
    """Whether a ``tell`` event is of a result from elsewhere, and not of a trial of this experiment."""
    return event["number"] is None and not event.get("customized")


class ImportedResults:
    """Puts results that were brought together into one list, which algorithms are told in one call."""

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []

    def take(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The list, when its last event has come; else, and where none of them is a result, an empty one."""
        if (value := result_of(event)) is not None:
            self._waiting.append({"parameter": event["parameters"], "value": value})
        if event.get("more"):
            return []
        results, self._waiting = self._waiting, []
        return results
