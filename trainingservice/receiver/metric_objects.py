"""Reads what a service tells its metric listeners: NNI's metric object as JSON text, which a plug-in wrote."""

from __future__ import annotations

import json
from typing import Any

from trainingservice.receiver.report_reading import WrongEntry, read_entry
from trainingservice.words.shown_value import shown
from trialkeeper import contract
from trialkeeper.metric_source import read_metric

#: Longest text of one metric object, in characters. Its value has NNI's own limit, contract.MAX_METRIC_BYTES.
MAX_TEXT = contract.MAX_REPORT_BYTES


def read_metric_object(data: object, at: float) -> contract.Entry:
    """The metric as an entry of type ``metric``, still without a number of its own (``n`` is 1).

    ``at``: when it came, in seconds since 1970. ``sequence`` is None where the object has none. Raises WrongEntry,
    whose ``field`` is a field of NNI's object, "" for the object as a whole.
    """
    if not isinstance(data, str):
        raise WrongEntry("", f"a metric is NNI's metric object as JSON text, not a value of the type "
                             f"{type(data).__name__}")
    if len(data) > MAX_TEXT:
        raise WrongEntry("", f"the metric object has {len(data)} characters; it may have {MAX_TEXT}")
    found = _object(data)
    entry = read_metric(data.encode("utf-8", "backslashreplace"))
    if entry is None:
        raise WrongEntry("type", f"must be one of {', '.join(contract.METRIC_KINDS)}")
    if "value" not in found and entry["kind"] != contract.REQUEST_PARAMETER:
        raise WrongEntry("value", "is missing")
    if entry.get("omitted"):
        raise WrongEntry("value", str(entry["omitted"]))
    try:
        entry = read_entry({"n": 1, "at": at, **entry})
    except WrongEntry as error:
        raise WrongEntry("type" if error.field == "kind" else error.field, str(error)) from None
    if type(found.get("sequence")) is not int:
        entry["sequence"] = None
    return entry


def _object(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise WrongEntry("", f"the metric is not JSON: {shown(data[:80], 100)}") from None
    if not isinstance(found, dict):
        raise WrongEntry("", f"the metric is not a JSON object: {shown(data[:80], 100)}")
    return found
