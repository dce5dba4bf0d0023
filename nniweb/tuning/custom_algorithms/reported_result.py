"""What a trial reported, for algorithms that get it whole."""

import json
import math
from typing import Any


def reported(text: str) -> Any:
    """The value; None for null, NaN, the infinities, and what is no JSON: those are no results."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if isinstance(found, float) and not math.isfinite(found) else found
