"""Who did what when: an experiment's own events and, where wanted, those of its trials."""

from typing import Any

from django.db.models import CharField, F, IntegerField, QuerySet, Value

from nniweb.experiments.models import Experiment, ExperimentEvent, TrialEvent

#: In place of a person's name: what nobody asked for, but the worker or the platform brought about.
NOBODY = "-"
#: ``sequence`` of an event that is of no trial.
OF_NO_TRIAL = -1
_COLUMNS = ("id", "at", "kind", "message", "who", "sequence", "trial")


def history_of(experiment: Experiment, *, with_trials: bool = False, kind: str = "", by: str = "", order: str = "-at"
               ) -> QuerySet[Any]:
    """Events as dictionaries with ``at``, ``kind``, ``message``, ``who`` (a user's name or None), ``sequence`` and
    ``trial`` (number and id); ``order`` is ``at`` or ``-at``.
    """
    own = ExperimentEvent.objects.filter(experiment=experiment).annotate(
        who=F("actor__username"), sequence=Value(OF_NO_TRIAL, IntegerField()), trial=Value("", CharField()))
    found = _fitting(own, kind, by).values(*_COLUMNS)
    if with_trials:
        found = found.union(_fitting(_of_trials(experiment), kind, by).values(*_COLUMNS_OF_TRIALS), all=True)
    return found.order_by(order, "-id" if order.startswith("-") else "id")


#: As ``_COLUMNS``: a trial's event has a ``trial`` of its own.
_COLUMNS_OF_TRIALS = ("id", "at", "kind", "message", "who", "sequence", "public_id")


def _of_trials(experiment: Experiment) -> QuerySet[Any]:
    return TrialEvent.objects.filter(trial__experiment=experiment).annotate(
        who=F("actor__username"), sequence=F("trial__sequence_id"), public_id=F("trial__public_id"))


def _fitting(events: QuerySet[Any], kind: str, by: str) -> QuerySet[Any]:
    if kind:
        events = events.filter(kind=kind)
    if by:
        events = events.filter(actor=None) if by == NOBODY else events.filter(actor__username=by)
    return events


def kinds_and_people(experiment: Experiment, *, with_trials: bool) -> tuple[list[str], list[str]]:
    """What there is to filter by, in order."""
    own = ExperimentEvent.objects.filter(experiment=experiment)
    kinds = set(own.values_list("kind", flat=True).distinct())
    people = set(own.values_list("actor__username", flat=True).distinct())
    if with_trials:
        of_trials = TrialEvent.objects.filter(trial__experiment=experiment)
        kinds |= set(of_trials.values_list("kind", flat=True).distinct())
        people |= set(of_trials.values_list("actor__username", flat=True).distinct())
    return sorted(kinds), sorted(name for name in people if name)


def last_event(experiment_pk: int) -> int:
    """Of the experiment itself; grows with each one. 0 for none."""
    found = ExperimentEvent.objects.filter(experiment=experiment_pk).order_by("-pk")
    return found.values_list("pk", flat=True).first() or 0
