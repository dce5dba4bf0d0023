"""Metrics that an attempt has already.

One is the same as another where it is of the same kind, for the same parameters, with the same sequence number and the
same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import Metric
from trialkeeper import contract

#: Metrics that a service told its listener are numbered by the host, from one above this on. No journal has so many
#: entries, and JavaScript counts them exactly.
FIRST_NUMBER = 2**52

Identity = tuple[str, str, int, str]


def identity(entry: contract.Entry) -> Identity:
    """Of an entry of type ``metric``."""
    parameter_id = entry["parameter_id"]
    return (entry["kind"], str(parameter_id) if type(parameter_id) is int else json.dumps(parameter_id),
            entry["sequence"], entry["value"])


def known_metrics(attempt_pk: int, entries: Sequence[contract.Entry], **which: Any) -> set[Identity]:
    """The metrics that are stored with the sequence numbers of these entries. ``which``: conditions on their rows."""
    sequences = [entry["sequence"] for entry in entries if entry["type"] == contract.METRIC]
    if not sequences:
        return set()
    rows: Iterable[Any] = Metric.objects.filter(
        attempt=attempt_pk, sequence__gte=min(sequences), sequence__lte=max(sequences), **which).values_list(
        "kind", "parameter_id", "sequence", "value")
    return set(rows)


def without_heard(entries: Sequence[contract.Entry], attempt: ReportingAttempt) -> list[contract.Entry]:
    """A keeper's entries less the metrics that the service has told its listener."""
    known = known_metrics(attempt.pk, entries, n__gt=FIRST_NUMBER)
    return [entry for entry in entries if entry["type"] != contract.METRIC or identity(entry) not in known]
