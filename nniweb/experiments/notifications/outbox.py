"""Writes down what people are to be told, in the transaction of what happened. Workers send it.

Where nobody listens it costs one query on a small table, when a trial or an experiment ends.
"""

import json
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Max, Min, Q, QuerySet

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters.addresses import experiment_page
from nniweb.experiments.models import Experiment, NotificationDelivery, NotificationRule, Proposal, Trial
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.notification import DeliveryState, Occasion
from nniweb.experiments.models.trial import counts_for_best
from nniweb.experiments.results.outcome import outcome_of
from nniweb.experiments.results.progress import progress_of
from nniweb.experiments.sql.selected_rows import is_any

#: Between two messages of new best results of one experiment to one receiver; what comes in between is told with the
#: latest of it. Asked of the rows of deliveries: a restart does not end the pause.
BEST_PAUSE = timedelta(minutes=10)
#: Parameters whose JSON is longer are left out of a message.
LONGEST_PARAMETERS = 4000


def experiment_ended(experiment: Experiment, at: datetime) -> None:
    """Tell that it is DONE or that it failed (ERROR); other ends were somebody's wish."""
    occasion = {ExperimentStatus.DONE: Occasion.DONE, ExperimentStatus.ERROR: Occasion.FAILED}.get(
        ExperimentStatus(experiment.status))
    if occasion is None:
        return
    wanted = Q(on_done=True) if occasion == Occasion.DONE else Q(on_failed=True)
    rules = _listening(experiment, wanted)
    pending = _waiting_bests(experiment)
    if not rules and not pending.exists():
        return
    # who hears of the end hears of the best result with it; the others need not wait for a better one
    pending.filter(rule__in=rules).update(state=DeliveryState.WITHDRAWN, ended_at=at,
                                          message="The message about the experiment's end includes it.")
    pending.update(due_at=at)
    if not rules:
        return
    progress = progress_of([experiment], at)[experiment.pk]
    best = Trial.objects.filter(public_id=progress.best_trial_id).first() if progress.best_trial_id else None
    told = {"experiment": {**_document(experiment), "trials": progress.counts, "duration": progress.elapsed,
                            "outcome": outcome_of(experiment, progress)},
            "best": _trial_document(best) if best is not None else None}
    for rule in rules:
        _write(rule, experiment, occasion, at, at, told)


def trial_has_result(trial_pk: int, at: datetime) -> None:
    """Tell where the trial's result is better than all before it. Called when it has ended with its final value."""
    if not is_any(NotificationRule, "enabled AND on_best"):  # by hand: each trial asks, and mostly there are none
        return
    trial = Trial.objects.select_related("experiment").get(pk=trial_pk)
    experiment, value = trial.experiment, trial.final_number
    if experiment.has_several_objectives or experiment.has_replicates:
        return  # then no trial is the best; proposals are (``proposal_has_result``)
    if trial.feasible is False:
        return  # it breaks a constraint, or it is not known yet: then this is called again
    if value is None or not (rules := _listening(experiment, Q(on_best=True))):
        return
    others = Trial.objects.filter(counts_for_best(), experiment=experiment).exclude(pk=trial_pk)
    upwards = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
    if others.filter(**{"final_number__gte" if upwards else "final_number__lte": value}).exists():
        return
    before = others.aggregate(before=(Max if upwards else Min)("final_number"))["before"]
    told = {"experiment": _document(experiment), "best": _trial_document(trial), "best_before": before}
    for rule in rules:
        _tell_best(rule, experiment, at, told)


def proposal_has_result(experiment: Experiment, proposal: Proposal, before: float | None, at: datetime) -> None:
    """Tell where the mean of a proposal that was run in full is better than that of all others, of which ``before`` is
    the best.
    """
    if proposal.mean is None or not is_any(NotificationRule, "enabled AND on_best"):
        return
    upwards = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
    if before is not None and (proposal.mean <= before if upwards else proposal.mean >= before):
        return
    trial = Trial.objects.get(experiment=experiment, sequence_id=proposal.first_sequence_id)
    told = {"experiment": _document(experiment), "best": _trial_document(trial), "best_before": before}
    for rule in _listening(experiment, Q(on_best=True)):
        _tell_best(rule, experiment, at, told)


def _tell_best(rule: NotificationRule, experiment: Experiment, at: datetime, told: dict[str, Any]) -> None:
    """At once, or with the next one that may be sent; what still waits is overtaken by it."""
    of_rule = NotificationDelivery.objects.filter(rule=rule, experiment=experiment, occasion=Occasion.NEW_BEST)
    last = of_rule.order_by("-planned_at").values_list("planned_at", flat=True).first()
    planned = at
    overtaken = of_rule.filter(state=DeliveryState.WAITING, claimed_until=None)
    if last is not None:
        # one that was to come is replaced and its time stays; after one that was sent there is a pause
        unsent = overtaken.filter(try_count=0).order_by("-planned_at").values_list("planned_at", flat=True).first()
        planned = max(at, unsent if unsent is not None else last + BEST_PAUSE)
    overtaken.update(state=DeliveryState.WITHDRAWN, ended_at=at, message="A better result came before it was sent.")
    _write(rule, experiment, Occasion.NEW_BEST, at, planned, told)


def tell_test(rule: NotificationRule, at: datetime) -> NotificationDelivery:
    """A message that only shows that the way works."""
    return _write(rule, None, Occasion.TEST, at, at, {})


def _listening(experiment: Experiment, wanted: Q) -> list[NotificationRule]:
    """Rules that this experiment concerns, of people who may see it."""
    concerned = Q(experiment=experiment) | Q(experiment=None, group=None, owner=experiment.owner_id)
    if experiment.group_id is not None:
        concerned |= Q(experiment=None, group=experiment.group_id)
    rules = NotificationRule.objects.filter(wanted, concerned, enabled=True, owner__is_active=True)
    return [rule for rule in rules.select_related("owner").order_by("pk")
            if visible_experiments(rule.owner).filter(pk=experiment.pk).exists()]


def _waiting_bests(experiment: Experiment) -> QuerySet[NotificationDelivery]:
    return NotificationDelivery.objects.filter(
        experiment=experiment, occasion=Occasion.NEW_BEST, state=DeliveryState.WAITING, claimed_until=None, try_count=0)


def _write(rule: NotificationRule, experiment: Experiment | None, occasion: Occasion, at: datetime, due: datetime,
           told: dict[str, Any]) -> NotificationDelivery:
    public_id = uuid.uuid4()
    body = {"delivery": str(public_id), "event": occasion.value, "at": at.isoformat(),
            "installation": settings.INSTALLATION_ID, "rule": rule.public_id, **told}
    return NotificationDelivery.objects.create(
        public_id=public_id, rule=rule, experiment=experiment, occasion=occasion, body=json.dumps(body),
        created_at=at, planned_at=due, due_at=due)


def _document(experiment: Experiment) -> dict[str, Any]:
    return {"id": experiment.public_id, "name": experiment.name, "status": experiment.status,
            "message": experiment.message, "owner": experiment.owner.username if experiment.owner else None,
            "group": experiment.group.name if experiment.group else None,
            "optimize_mode": experiment.optimize_mode, "page": experiment_page(experiment.public_id)}


def _trial_document(trial: Trial) -> dict[str, Any]:
    sets: Iterable[Any] = trial.parameter_sets.filter(index=trial.result_index).values_list("value", flat=True)
    parameters = next(iter(sets), None)
    short = len(json.dumps(parameters)) <= LONGEST_PARAMETERS
    of_replicates = {} if trial.proposal is None else {
        "value": trial.proposal.mean, "standard_error": trial.proposal.standard_error,
        "replicates": trial.proposal.value_count}
    return {"trial": trial.public_id, "sequence_id": trial.sequence_id, "value": trial.final_number, **of_replicates,
            "parameters": parameters if short else None}
