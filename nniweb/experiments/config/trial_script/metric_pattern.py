"""A regular expression that finds metrics in the lines of a trial's output."""

from __future__ import annotations

import re
import warnings

from trainingservice.given_expression import GivenExpression
from trialkeeper.line_metrics import JSON_LINES, NAME, STEP, VALUE


def check_pattern(pattern: str) -> str:
    """The same pattern. Raises ValueError where no metric could be found by it.

    It is one that Python and RE2 understand. The keeper has Python's engine, and bounds its time; what RE2 lacks makes
    that engine slow.
    """
    if pattern == JSON_LINES:
        return pattern
    try:
        GivenExpression(pattern)
    except ValueError as error:
        raise ValueError(f"is not a regular expression that can be used here: {error}. Lookarounds and references to "
                         "groups are not possible") from None
    groups = _groups(pattern)
    if not set(groups) - {NAME, STEP}:
        raise ValueError(r"has no group for a metric; write (?P<value>\S+) where the number stands, or json for lines "
                         "that are JSON objects")
    if NAME in groups and VALUE not in groups:
        raise ValueError(r"has a group name and no group value; write (?P<value>\S+) where the number stands")
    return pattern


def metrics_of_pattern(pattern: str) -> set[str] | None:
    """Names of the metrics that it finds, None where the lines themselves say them."""
    groups = set(_groups(pattern)) if pattern != JSON_LINES else {NAME}
    return None if NAME in groups else groups - {STEP}


def _groups(pattern: str) -> dict[str, int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python will read otherwise
            return dict(re.compile(pattern).groupindex)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression of Python: {error}") from None
