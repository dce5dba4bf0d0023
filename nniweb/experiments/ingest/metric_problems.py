"""What keeps keepers from finding metrics of a script is told once in the experiment's history, of its first trial."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import ExperimentEvent, Trial
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trialkeeper import contract

#: What the kinds of the events begin with; the problem follows.
KIND = "metrics: "
#: What was told last, so that most trials ask the database nothing.
_MOST_KNOWN = 1000
_known: OrderedDict[tuple[int, str], None] = OrderedDict()


def note_metric_problems(attempt: ReportingAttempt, told: Sequence[contract.MetricProblem], at: datetime) -> None:
    """Within the transaction of the report's group."""
    for one in told:
        key = (attempt.experiment_pk, one["problem"])
        if key in _known:
            _known.move_to_end(key)
            continue
        kind = KIND + one["problem"]
        if not ExperimentEvent.objects.filter(experiment=attempt.experiment_pk, kind=kind).exists():
            number = Trial.objects.values_list("sequence_id", flat=True).get(pk=attempt.trial_pk)
            reason = Reason("metrics_not_found", trial=number, problem=one["problem"], detail=one["detail"])
            ExperimentEvent.objects.create(experiment_id=attempt.experiment_pk, at=at, kind=kind,
                                           message=printable(reason))
        _known[key] = None
        if len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
