"""What keepers tell of trials and what is the same for many of them is told once in the experiment's history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from datetime import datetime

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import Attempt, ExperimentEvent, Trial
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trialkeeper import contract

#: Kinds of events of an experiment. That of what keeps keepers from finding metrics begins so; the problem follows.
WARM, PLAIN, METRICS = "warm start", "plain start", "metrics: "
#: Events of one kind of start in one experiment, which may have many machines.
MOST_EVENTS = 20
#: What was told last, so that most trials ask the database nothing.
_MOST_KNOWN = 2000
_known: OrderedDict[Hashable, None] = OrderedDict()


def note_metric_problems(attempt: ReportingAttempt, told: Sequence[contract.MetricProblem], at: datetime) -> None:
    """What keeps keepers from finding metrics of a script, of its first trial. Within the transaction of the report's
    group.
    """
    for one in told:
        kind = METRICS + one["problem"]
        if _is_known((attempt.experiment_pk, kind)):
            continue
        if not ExperimentEvent.objects.filter(experiment=attempt.experiment_pk, kind=kind).exists():
            number = Trial.objects.values_list("sequence_id", flat=True).get(pk=attempt.trial_pk)
            _add(attempt, at, kind, printable(Reason("metrics_not_found", trial=number, problem=one["problem"],
                                                     detail=one["detail"])))
        _note((attempt.experiment_pk, kind))


def note_warm_start(attempt: ReportingAttempt, told: contract.WarmStartDocument, at: datetime, host: str) -> None:
    """How trials of an experiment are started on a machine, warm or plainly. Within the transaction of the report's
    group. ``host``: the machine's own name where it has just been told, so that the attempt may have none yet.
    """
    if told["warm"] and told["learns"]:
        return  # the next ones are warm
    machine = Attempt.objects.filter(pk=attempt.pk).values_list("machine_name", flat=True).first() or host
    kind = WARM if told["warm"] else PLAIN
    key = (attempt.experiment_pk, kind, machine, told.get("cause", ""))
    if _is_known(key):
        return
    reason = Reason("warm_start", machine=machine, modules=told["modules"], memory=told["memory"]) if told["warm"] \
        else Reason("plain_start", machine=machine, cause=told["cause"], detail=told["detail"])
    events = ExperimentEvent.objects.filter(experiment=attempt.experiment_pk, kind=kind)
    message = printable(reason)
    if events.count() < MOST_EVENTS and not events.filter(message=message).exists():
        _add(attempt, at, kind, message)
    _note(key)


def _add(attempt: ReportingAttempt, at: datetime, kind: str, message: str) -> None:
    ExperimentEvent.objects.create(experiment_id=attempt.experiment_pk, at=at, kind=kind, message=message)


def _is_known(key: Hashable) -> bool:
    if key not in _known:
        return False
    _known.move_to_end(key)
    return True


def _note(key: Hashable) -> None:
    _known[key] = None
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
