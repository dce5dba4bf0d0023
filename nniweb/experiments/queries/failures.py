"""Why trials of an experiment failed: equal failures together, the most frequent first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min

from nniweb.experiments.lifecycle.reason_columns import document
from nniweb.experiments.models import Experiment, Trial


@dataclass(frozen=True)
class EqualFailures:
    """``key`` as ``Trial.failure``. The message and its reason are those of ``trial``, the first of them."""

    key: str
    count: int
    message: str
    reason: dict[str, Any] | None
    trial_id: str
    sequence_id: int


def failures_of(experiment: Experiment, most: int) -> Sequence[EqualFailures]:
    """The ``most`` frequent ones. Two queries; the first reads only the index of failed trials."""
    failed = Trial.objects.filter(experiment=experiment, failure__isnull=False)
    groups = list(failed.values_list("failure").annotate(count=Count("pk"), first=Min("sequence_id"))
                  .order_by("-count", "first")[:most])
    first = {row[0]: row for row in Trial.objects.filter(
        experiment=experiment, sequence_id__in=[first for _, _, first in groups]).values_list(
        "sequence_id", "public_id", "message", "reason", "reason_arguments")}
    return [EqualFailures(str(key), count, message, document(reason, arguments), public_id, number)
            for key, count, sequence_id in groups
            for number, public_id, message, reason, arguments in [first[sequence_id]]]
