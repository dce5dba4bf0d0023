"""How trials of an experiment are started on a machine, warm or plainly, is told once in the experiment's history."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.models import Attempt, ExperimentEvent
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trialkeeper import contract

#: Kinds of events of an experiment.
WARM, PLAIN = "warm start", "plain start"
#: Events of one kind in one experiment, which may have many machines.
MOST_EVENTS = 20
#: What was told last, so that most trials ask the database nothing.
_MOST_KNOWN = 1000
_known: OrderedDict[tuple[int, str, str, str], None] = OrderedDict()


def note_warm_start(attempt: ReportingAttempt, told: contract.WarmStartDocument, at: datetime, host: str
                    ) -> None:
    """Within the transaction of the report's group. ``host``: the machine's own name where it has just been told, so
    that the attempt may have none yet.
    """
    if told["warm"] and told["learns"]:
        return  # the next ones are warm
    machine = Attempt.objects.filter(pk=attempt.pk).values_list("machine_name", flat=True).first() or host
    kind = WARM if told["warm"] else PLAIN
    key = (attempt.experiment_pk, kind, machine, told.get("cause", ""))
    if key in _known:
        _known.move_to_end(key)
        return
    reason = Reason("warm_start", machine=machine, modules=told["modules"], memory=told["memory"]) if told["warm"] \
        else Reason("plain_start", machine=machine, cause=told["cause"], detail=told["detail"])
    events = ExperimentEvent.objects.filter(experiment=attempt.experiment_pk, kind=kind)
    message = printable(reason)
    if events.count() < MOST_EVENTS and not events.filter(message=message).exists():
        ExperimentEvent.objects.create(experiment_id=attempt.experiment_pk, at=at, kind=kind, message=message)
    _known[key] = None
    if len(_known) > _MOST_KNOWN:
        _known.popitem(last=False)
