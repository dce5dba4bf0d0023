"""``nni.typehint``: names for annotations of users' algorithms."""

from typing import Any

Parameters = dict[str, Any]
SearchSpace = dict[str, Any]
TrialMetric = float
TrialRecord = dict[str, Any]
ParameterRecord = dict[str, Any]
