"""The tuner's history: appended in the transaction of what it describes, read back to rebuild a tuner."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from nniweb.experiments.checkpoints.joined_attempts import values_before
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TunerEvent
from nniweb.experiments.sql.new_rows import insert
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def append_events(experiment: Experiment, events: Sequence[dict[str, Any]], at: datetime) -> None:
    """Number and store events, inside the caller's transaction (which holds the experiment's row)."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE experiments_experiment SET next_tuner_event = next_tuner_event + %s WHERE id = %s"
                       " RETURNING next_tuner_event", [len(events), experiment.pk])
        last = cursor.fetchone()[0]
    insert(
        TunerEvent(experiment=experiment, number=last - len(events) + index, data=event, at=at)
        for index, event in enumerate(events))


def tuner_history(experiment: Experiment) -> list[dict[str, Any]]:
    """All asks, tells and changes of the search space, in order. Results of changed code have no value, unless the
    tuner is External: it may have been, when they came.
    """
    events = TunerEvent.objects.filter(experiment=experiment).order_by("number").values_list("data", flat=True)
    if experiment.has_external_tuner:
        return list(events)
    return [{**event, "value": None, **({"values": None} if "values" in event else {})} if "variant" in event else event
            for event in events]


def number_of_ends(experiment: Experiment) -> int:
    """Results, or ends of trials, that the history tells the tuner."""
    return TunerEvent.objects.filter(experiment=experiment, data__event="tell").count()


def number_of_set(experiment: Experiment, asked: int | None, parameter_id: str) -> int | None:
    """The tuner's number of the parameter set that a metric is of: ``asked``, the trial's, unless it has several."""
    if not experiment.multi_phase:
        return asked
    given = json.loads(parameter_id)
    return given if type(given) is int else asked


def intermediate_report(experiment: Experiment, trial: str, asked: int | None, sequence: int, number: float | None,
                        value: str) -> dict[str, Any]:
    """What an assessor is told of one result; a class of the user's own gets it as it was reported."""
    report: dict[str, Any] = {"trial": trial, "sequence": sequence, "value": number}
    is_whole = experiment.has_own_tuner or experiment.has_own_assessor
    return {**report, "number": asked, "result": value} if is_whole else report


def reports_of(experiment: Experiment, results: QuerySet[Metric]) -> Iterator[dict[str, Any]]:
    """What an assessor is told of these results, in their order. Before the first one of an attempt of a trial that
    continues another one, what the curve has from that.
    """
    for attempt, trial, asked, continues, first, sequence, number, value, given in results.values_list(
            "attempt", "attempt__trial__public_id", "attempt__trial__ask_number", "attempt__trial__continues",
            "attempt__first_sequence", "sequence", "number", "value", "parameter_id").iterator():
        asked = number_of_set(experiment, asked, given)
        if sequence == 0 and first and continues is not None:
            for before, known, text in values_before(Attempt.objects.get(pk=attempt)):
                yield {**intermediate_report(experiment, trial, asked, before, known, text), "inherited": True}
        yield intermediate_report(experiment, trial, asked, (first or 0) + sequence, number, str(value))


def assessor_history(experiment: Experiment, up_to_revision: int) -> Iterator[dict[str, Any]]:
    """Intermediate results and ends of trials up to a revision, trial by trial, in the order of their ends. One that
    has not ended comes before those that ended after its last result: they took no part in the verdict on it.

    A trial that has ended since is among them, without its end: that is told when the tuner's is.
    """
    last_heard = Metric.objects.filter(attempt__trial=OuterRef("pk"), kind=contract.PERIODICAL).order_by().values(
        "attempt__trial").annotate(at=Max("received_at")).values("at")
    trials = Trial.objects.filter(experiment=experiment, intermediate_count__gt=0)
    if experiment.has_own_tuner:
        trials = trials.filter(variant=None)  # it is told results of the code alone
    in_order = trials.order_by(Coalesce("ended_at", Subquery(last_heard)), "sequence_id")
    for pk, public_id, status, taught, revision in in_order.values_list(
            "pk", "public_id", "status", "taught", "revision").iterator():
        for report in reports_of(experiment, Metric.objects.filter(
                attempt__trial=pk, kind=contract.PERIODICAL, revision__lte=up_to_revision).order_by("attempt", "n")):
            yield {"event": "intermediate", **report}
        if TrialJobStatus(status).is_end and (taught or revision <= up_to_revision):
            yield {"event": "trial_end", "trial": public_id, "succeeded": status == TrialJobStatus.SUCCEEDED}
