"""Which trials of an experiment are meant, in which order: the same for lists, actions on many, exports and pages."""

import math
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.utils import timezone
from rest_framework import serializers

from nniweb.documents.tags import with_tag
from nniweb.experiments.models import Attempt, Experiment, MetricNumber, Trial, TrialParameters
from nniweb.experiments.models.trial import TRIAL_STATUSES, TrialSource
from nniweb.experiments.queries.present_revisions import certain_upto
from nniweb.experiments.sql.json_values import NumberAt, TextAt
from nniweb.experiments.trial_filter import FilterInvalid, fitting_trials
from nniweb.experiments.trial_filter.conditions import text_condition
from nniweb.experiments.trial_filter.language import LONGEST
from nniweb.http.fields import CommaListField, OneOfField, Query, RevisionField
from trainingservice.words.shown_value import shown

#: Name of an order -> column of the trial.
ORDERS = {"sequence_id": "sequence_id", "final_value": "final_number", "latest": "latest_number",
          "intermediates": "intermediate_count", "created": "created_at", "started": "started_at", "ended": "ended_at",
          "status": "status", "source": "source", "message": "message", "front": "on_front", "mean": "proposal__mean",
          "standard_error": "proposal__standard_error", "proposal": "proposal__first_sequence_id"}
#: Name of an order -> column of its last attempt.
ORDERS_OF_ATTEMPTS = {"duration": "duration", "machine": "machine_name", "exit_code": "exit_code", "attempt": "number",
                      "cluster": "cluster__name"}
#: Name of an order -> column with a JSON list: in the order of its text.
ORDERS_OF_LISTS = {"tags": "tags", "gpu": "gpu_indices"}
#: Before a parameter's name.
PARAMETER = "parameters."
#: Before the name of a further metric -> which number of it.
METRIC, LATEST = "metrics.", "latest."
ORDERS_OF_METRICS = {METRIC: "final", LATEST: "latest"}
_FIXED = [*ORDERS, *ORDERS_OF_ATTEMPTS, *ORDERS_OF_LISTS]


class OrderField(serializers.CharField):
    """The name of a column, with "-" before it for falling."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=200, help_text=(
            f"One of {', '.join(_FIXED)}, parameters.NAME, or, for a further metric, metrics.NAME (final) or "
            "latest.NAME. A leading - sorts in descending order. Trials without the value always come last. Running "
            "trials have no duration yet."), **kwargs)

    def to_internal_value(self, data: Any) -> str:
        order = super().to_internal_value(data)
        name = order.removeprefix("-")
        prefixed = any(name.startswith(prefix) and len(name) > len(prefix) for prefix in (PARAMETER, METRIC, LATEST))
        if name not in _FIXED and not prefixed:
            raise serializers.ValidationError(
                f"There is no order {shown(name)}. Possible orders: {', '.join(_FIXED)}, parameters.NAME, "
                "metrics.NAME and "
                "latest.NAME, with a leading - for descending order.")
        return order


class TrialFilters(Query):
    """Which trials; several filters are joined by and."""

    filter = serializers.CharField(required=False, max_length=LONGEST, help_text=(
        "An expression such as `status = FAILED and lr < 0.01`. It compares fields, parameters (nested ones with a "
        "dot) and times with = != < <= > >= ~ (contains) or in (...), and joins comparisons with and, or, not and "
        "brackets. docs/trial-filter.md describes all of them."))
    status = CommaListField(child=OneOfField(choices=TRIAL_STATUSES), required=False,
                            help_text="One or several.")
    source = CommaListField(  # type: ignore[assignment]  # fields are taken from the class before DRF's own name counts
        child=OneOfField(choices=TrialSource.choices), required=False)
    tag = serializers.CharField(required=False)
    min_final_value = serializers.FloatField(required=False)
    max_final_value = serializers.FloatField(required=False)
    q = serializers.CharField(required=False, help_text=(
        "The trial's sequence number; or the start of its id, or text in its message or parameters."))
    since_revision = RevisionField(required=False, help_text="Only trials that changed after this revision.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name in ("min_final_value", "max_final_value"):
            if not math.isfinite(attrs.get(name, 0.0)):
                raise serializers.ValidationError({name: "must be a finite number."})
        return attrs


#: Values of ``group``.
PROPOSALS, NONE = "proposals", "none"


class GroupField(serializers.ChoiceField):
    """Whether trials of one proposal are one row."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[PROPOSALS, NONE], help_text=(
            "proposals: with replicates, the first trial of each proposal of which a trial fits. `proposal` of the "
            "trial has the mean; the filter `proposal = N` lists all of its trials."), **kwargs)


class TrialQuery(TrialFilters):
    order = OrderField(default="sequence_id")
    group = GroupField(default=NONE)


def by_proposal(experiment: Experiment, trials: QuerySet[Trial], *, are_all: bool) -> QuerySet[Trial]:
    """The first trial of each proposal of which one of these trials is. ``are_all``: they are all of the experiment."""
    first = Trial.objects.filter(experiment=experiment, sequence_id=F("proposal__first_sequence_id"))
    return first if are_all else first.filter(proposal__in=trials.order_by().values("proposal"))


def filtered(experiment: Experiment, wanted: dict[str, Any]) -> QuerySet[Trial]:
    """The experiment's trials that fit. Raises ValidationError naming the place in ``filter``."""
    try:
        return fitting(experiment, wanted)
    except FilterInvalid as invalid:
        raise serializers.ValidationError({"filter": f"At character {invalid.start + 1}: {invalid}"}) from None


def fitting(experiment: Experiment, wanted: dict[str, Any]) -> QuerySet[Trial]:
    """As ``filtered``; raises FilterInvalid."""
    trials: QuerySet[Trial] = Trial.objects.filter(experiment=experiment)
    if statuses := wanted.get("status"):
        trials = trials.filter(status__in=statuses)
    if sources := wanted.get("source"):
        trials = trials.filter(source__in=sources)
    if "tag" in wanted:
        trials = with_tag(trials, wanted["tag"])
    if "min_final_value" in wanted:
        trials = trials.filter(final_number__gte=wanted["min_final_value"])
    if "max_final_value" in wanted:
        trials = trials.filter(final_number__lte=wanted["max_final_value"])
    if "q" in wanted:
        trials = trials.filter(text_condition(wanted["q"]))
    if "since_revision" in wanted:
        trials = trials.filter(revision__gt=wanted["since_revision"])
        if (upto := certain_upto(experiment.pk)) is not None:
            trials = trials.filter(revision__lte=upto)
    if wanted.get("filter"):
        trials = fitting_trials(trials, wanted["filter"], experiment, timezone.now())
    return trials


def in_order(trials: QuerySet[Trial], order: str) -> QuerySet[Trial]:
    """In this order, the first ones first where that decides nothing."""
    falling = order.startswith("-")
    keys = _keys(order.removeprefix("-"))
    return trials.order_by(*(_directed(key, falling) for key in keys), "sequence_id")


def _directed(key: Any, falling: bool) -> Any:
    """Rows without a value come last. Where each has one it is not said: PostgreSQL would not use an index then, and
    sort all trials of the experiment for a page of them.
    """
    of_trial = isinstance(key, F) and "__" not in key.name  # type: ignore[attr-defined]
    has_always = of_trial and not Trial._meta.get_field(key.name).null
    nulls_last = None if has_always else True
    return key.desc(nulls_last=nulls_last) if falling else key.asc(nulls_last=nulls_last)


def _keys(name: str) -> list[Any]:
    if name in ORDERS:
        return [F(ORDERS[name])]
    last = Attempt.objects.filter(trial=OuterRef("pk")).order_by("-number")
    if name in ORDERS_OF_ATTEMPTS:
        return [Subquery(last.values(ORDERS_OF_ATTEMPTS[name])[:1])]
    if name == "gpu":
        return [Subquery(last.annotate(text=Cast("gpu_indices", TextField())).values("text")[:1])]
    if name == "tags":
        return [Cast("tags", TextField())]
    for prefix, column in ORDERS_OF_METRICS.items():
        if name.startswith(prefix):
            of_trial = MetricNumber.objects.filter(trial=OuterRef("pk"), metric__name=name.removeprefix(prefix))
            return [Subquery(of_trial.values(column)[:1])]
    names = tuple(name.removeprefix(PARAMETER).split("."))
    first = TrialParameters.objects.filter(trial=OuterRef("pk"), index=OuterRef("result_index"))
    return [Subquery(first.annotate(key=kind("value", names)).values("key")[:1]) for kind in (NumberAt, TextAt)]
