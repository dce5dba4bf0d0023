"""Durations as config files write them: ``10s``, ``5m``, ``0.5h``, ``1h30m``, ``2d``, or whole seconds."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

from trialkeeper.whole_number import whole_number

SECONDS_OF_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
#: 68 years: what fits a signed 32-bit number of seconds.
LONGEST = 2**31 - 1
#: The longest of the times for which something may be kept (a trial that ends, an idle job): a day.
LONGEST_GRACE = 86_400

_PART = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*([smhd])\s*", re.ASCII)


def parse_duration(value: Any) -> int:
    """Seconds, rounded up; of what is longer than ``LONGEST``, that. Raises ValueError with a sentence."""
    seconds = seconds_of(value)
    if seconds <= 0:
        raise ValueError("must be longer than 0 seconds; leave it out for no limit")
    return min(seconds, LONGEST)


def seconds_of(value: Any) -> int:
    """Seconds, rounded up, however many. Raises ValueError with a sentence."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a duration such as 30s, 10m, 1.5h or 2d, or a whole number of seconds")
    return value if isinstance(value, int) else _seconds_of_text(value)


def _seconds_of_text(text: str) -> int:
    if whole_number(text) is not None:
        raise ValueError(f"has no unit: write {text.strip()}s, {text.strip()}m, {text.strip()}h or {text.strip()}d")
    total, units, position = Decimal(0), set(), 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2] in units:
            break
        total += Decimal(part[1]) * SECONDS_OF_UNIT[part[2]]
        units.add(part[2])
        position = part.end()
    if not units or position < len(text):
        raise ValueError("must be a duration such as 30s, 10m, 1.5h, 1h30m or 2d (units: s, m, h, d)")
    return int(total.to_integral_value(rounding=ROUND_CEILING))


def format_duration(seconds: int) -> str:
    """The duration in its largest whole unit (``90m``, ``2d``): a form that NNI itself reads."""
    for unit, length in SECONDS_OF_UNIT.items():
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    raise AssertionError("every whole number is a multiple of one second")


def parse_grace(value: Any) -> int:
    """Seconds from one to ``LONGEST_GRACE``. Raises ValueError with a sentence."""
    seconds = seconds_of(value)
    if not 1 <= seconds <= LONGEST_GRACE:
        raise ValueError(f"must be from 1s to {format_duration(LONGEST_GRACE)}")
    return seconds


#: A model field that takes a duration and holds seconds.
Duration = Annotated[int, BeforeValidator(parse_duration)]
#: ... of at most a day: the time that a trial may take to save a checkpoint and end, that a job may be idle.
Grace = Annotated[int, BeforeValidator(parse_grace)]
