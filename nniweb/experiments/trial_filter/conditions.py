"""From a comparison to a condition for the database.

Every condition is true or false, never unknown: a comparison with something that a trial does not have is false, also
with !=, so that "not" means the opposite of all else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, TextField, Value
from django.db.models.fields import DateTimeField
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IContains,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from nniweb.experiments.models import Attempt, MetricNumber, TrialParameters
from nniweb.experiments.models.trial import TRIAL_STATUSES, TrialSource
from nniweb.experiments.sql.json_values import HasItem, HasItemLike, NumberAt, TextAt, TypeAt
from nniweb.experiments.trial_filter import values
from nniweb.experiments.trial_filter.language import Comparison, FilterInvalid, Path, Term
from trainingservice.reasons import CODES, OTHER, PLATFORM

REASONS = sorted([*CODES, OTHER, PLATFORM])
#: Seconds that no trial runs, 300 years: a time that is so far away from another one is still in the calendar.
_LONGEST = 300 * 365 * 86_400.0
_ORDER = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_ORDER_OF_EXPRESSIONS = {"<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual}

Wrap = Callable[[Q], Q]


@dataclass(frozen=True)
class Field:
    """Something that every trial has, or may have."""

    name: str
    #: For the help beside the box.
    about: str
    condition: Callable[[Comparison, datetime], Q]


def of_last_attempt(inner: Q) -> Q:
    """Trials whose last attempt is like this."""
    later = Attempt.objects.filter(trial=OuterRef("trial"), number__gt=OuterRef("number"))
    return Q(Exists(Attempt.objects.filter(~Exists(later), inner, trial=OuterRef("pk"))))


def _as_it_is(inner: Q) -> Q:
    return inner


def _compared(comparison: Comparison, column: str, read: Callable[[Path, Term], Any], wrap: Wrap) -> Q:
    """Of a column that is NULL where there is no value."""
    path, terms, operator = comparison.path, comparison.values, comparison.operator
    present = Q(**{f"{column}__isnull": False})
    if operator in ("=", "!=") and values.is_none(terms[0]):
        return ~wrap(present) if operator == "=" else wrap(present)
    if operator == "~":
        raise _refused(comparison, "= != < <= > >= or in")
    found = [read(path, term) for term in terms]
    if operator == "!=":
        return wrap(present & ~Q(**{column: found[0]}))
    if operator in _ORDER:
        return wrap(Q(**{f"{column}__{_ORDER[operator]}": found[0]}))
    return wrap(Q(**{f"{column}__in": found}))


def _numbers(column: str, read: Callable[[Path, Term], Any] = values.number_for, wrap: Wrap = _as_it_is
             ) -> Callable[[Comparison, datetime], Q]:
    return lambda comparison, now: _compared(comparison, column, read, wrap)


def _texts(column: str, wrap: Wrap = _as_it_is) -> Callable[[Comparison, datetime], Q]:
    """Of a column that is "" where there is no value."""

    def condition(comparison: Comparison, _now: datetime) -> Q:
        operator, terms = comparison.operator, comparison.values
        present = ~Q(**{column: ""})
        if operator in _ORDER:
            raise _refused(comparison, "= != ~ or in")
        if operator in ("=", "!=") and values.is_none(terms[0]):
            return ~wrap(present) if operator == "=" else wrap(present)
        if operator == "~":
            return wrap(Q(**{f"{column}__icontains": terms[0].text}))
        if operator == "!=":
            return wrap(present & ~Q(**{column: terms[0].text}))
        return wrap(Q(**{f"{column}__in": [term.text for term in terms]}))

    return condition


def _texts_or_none(column: str) -> Callable[[Comparison, datetime], Q]:
    """Of a column that is NULL where there is no value."""

    def condition(comparison: Comparison, _now: datetime) -> Q:
        if comparison.operator == "~":
            raise _refused(comparison, "= != or in")
        return _compared(comparison, column, lambda _, term: term.text, _as_it_is)

    return condition


def _choices(column: str, choices: list[str]) -> Callable[[Comparison, datetime], Q]:
    def condition(comparison: Comparison, _now: datetime) -> Q:
        if comparison.operator in _ORDER:
            raise _refused(comparison, "= != ~ or in")
        if comparison.operator == "~":
            return Q(**{f"{column}__icontains": comparison.values[0].text})
        wanted = [values.choice_for(comparison.path, term, choices) for term in comparison.values]
        found = Q(**{f"{column}__in": wanted})
        return ~found if comparison.operator == "!=" else found

    return condition


def _reasons(comparison: Comparison, now: datetime) -> Q:
    """A code that there is, or none: a mistyped one is told."""
    if comparison.operator in ("=", "!=", "in"):
        for term in comparison.values:
            if not values.is_none(term):
                values.choice_for(comparison.path, term, REASONS)
    return _texts("reason")(comparison, now)


def _times(column: str) -> Callable[[Comparison, datetime], Q]:
    def condition(comparison: Comparison, now: datetime) -> Q:
        operator, term = comparison.operator, comparison.values[0]
        present = Q(**{f"{column}__isnull": False})
        if operator in ("=", "!=") and values.is_none(term):
            return present if operator == "!=" else ~present
        if operator in ("~", "in"):
            raise _refused(comparison, "= != < <= > or >=")
        first, last = values.times_for(comparison.path, term, now)
        if operator in _ORDER:
            return Q(**{f"{column}__{_ORDER[operator]}": last if operator in ("<=", ">") else first})
        within = Q(**{f"{column}__range": (first, last)})
        return within if operator == "=" else present & ~within

    return condition


def _duration(comparison: Comparison, now: datetime) -> Q:
    """By the keeper's clock where it has said; until then, and for a running one, by the server's."""
    operator, term = comparison.operator, comparison.values[0]
    begun = Q(started_at__isnull=False)
    if operator in ("=", "!=") and values.is_none(term):
        return begun if operator == "!=" else ~begun
    if operator in ("~", "in"):
        raise _refused(comparison, "= != < <= > or >=")
    seconds = max(-_LONGEST, min(values.seconds_for(comparison.path, term), _LONGEST))
    until = F("started_at") + timedelta(seconds=seconds)
    told = of_last_attempt(Q(duration__isnull=False))
    end = Coalesce("ended_at", Value(now), output_field=DateTimeField())
    if operator in _ORDER:
        by_keeper = of_last_attempt(Q(**{f"duration__{_ORDER[operator]}": seconds}))
        by_server = Q(_ORDER_OF_EXPRESSIONS[operator](end, until))
    else:
        by_keeper = of_last_attempt(Q(duration=seconds))
        by_server = Q(Exact(end, until))
    found = by_keeper | (begun & ~told & by_server)
    return (begun | told) & ~found if operator == "!=" else found


def _gpus(comparison: Comparison, _now: datetime) -> Q:
    return _items(comparison, "gpu_indices", of_last_attempt,
                  lambda term: HasItem("gpu_indices", values.whole_number_for(comparison.path, term)), None)


def _tags(comparison: Comparison, _now: datetime) -> Q:
    return _items(comparison, "tags", _as_it_is, lambda term: HasItem("tags", term.text),
                  lambda term: HasItemLike("tags", term.text))


def _items(comparison: Comparison, column: str, wrap: Wrap, has: Callable[[Term], HasItem],
           has_like: Callable[[Term], HasItemLike] | None) -> Q:
    """Of a list: "=" means that it holds this one."""
    operator, terms = comparison.operator, comparison.values
    if operator in _ORDER or (operator == "~" and has_like is None):
        raise _refused(comparison, "=, != or in")
    if operator in ("=", "!=") and values.is_none(terms[0]):
        some = wrap(Q(**{f"{column}__isnull": False}) & ~Q(**{column: []}))
        return some if operator == "!=" else ~some
    if operator == "~" and has_like is not None:
        return wrap(Q(has_like(terms[0])))
    found = Q()
    for term in terms:
        found |= Q(has(term))
    return ~wrap(found) if operator == "!=" else wrap(found)


def _refused(comparison: Comparison, possible: str) -> FilterInvalid:
    operator = {"~": "~ (contains)"}.get(comparison.operator, comparison.operator)
    return FilterInvalid(f"{comparison.path} cannot be compared by {operator}, only by {possible}.",
                         comparison.path.start, comparison.values[-1].end)


def _front(comparison: Comparison, _now: datetime) -> Q:
    if comparison.operator not in ("=", "!="):
        raise _refused(comparison, "= or !=")
    word = values.choice_for(comparison.path, comparison.values[0], ["yes", "no", "true", "false"])
    return Q(on_front=(word in ("yes", "true")) == (comparison.operator == "="))


def _feasible(comparison: Comparison, _now: datetime) -> Q:
    if comparison.operator not in ("=", "!="):
        raise _refused(comparison, "= or !=")
    word = values.choice_for(comparison.path, comparison.values[0], ["yes", "no", "true", "false"])
    wanted = (word in ("yes", "true")) == (comparison.operator == "=")
    return Q(feasible=wanted, final_value__isnull=False)


def _cluster(comparison: Comparison, now: datetime) -> Q:
    """Attempts of before there were several clusters have none of their own."""
    if comparison.operator in ("=", "!=") and values.is_none(comparison.values[0]):
        any_attempt = of_last_attempt(Q())
        return ~any_attempt if comparison.operator == "=" else any_attempt
    return of_last_attempt(_texts("cluster__name")(comparison, now) & Q(cluster__isnull=False)
                           | _texts("trial__experiment__cluster__name")(comparison, now) & Q(cluster=None))


def _place(comparison: Comparison, now: datetime) -> Q:
    if comparison.operator in ("=", "!=") and values.is_none(comparison.values[0]):
        in_one = of_last_attempt(Q(place__isnull=False))
        return ~in_one if comparison.operator == "=" else in_one
    return of_last_attempt(Q(place__isnull=False) & _texts("place__job_name")(comparison, now))


def _variant(comparison: Comparison, now: datetime) -> Q:
    if comparison.operator in ("=", "!=") and values.is_none(comparison.values[0]):
        return Q(variant__isnull=comparison.operator == "=")
    return Q(variant__isnull=False) & _texts("variant__sha256")(comparison, now)


STATUSES = [value for value, _ in TRIAL_STATUSES]

FIELDS = {field.name: field for field in [
    Field("status", ", ".join(STATUSES), _choices("status", STATUSES)),
    Field("number", "its number in the experiment", _numbers("sequence_id", values.whole_number_for)),
    Field("result", "the final result", _numbers("final_number")),
    Field("mean", "with replicates, the mean of its proposal", _numbers("proposal__mean")),
    Field("standard_error", "... and its standard error", _numbers("proposal__standard_error")),
    Field("proposal", "with replicates, the number of the first trial of its proposal",
          _numbers("proposal__first_sequence_id", values.whole_number_for)),
    Field("replicate", "index among the replicates of its proposal, from 0",
          _numbers("replicate", values.whole_number_for)),
    Field("latest", "the latest intermediate result", _numbers("latest_number")),
    Field("front", "yes if it is on the Pareto front (with several objectives)", _front),
    Field("feasible", "yes if its result satisfies the constraints on outcomes", _feasible),
    Field("intermediates", "number of intermediate results",
          _numbers("intermediate_count", values.whole_number_for)),
    Field("duration", "seconds, or 10m, 1.5h, 2d; for a running trial, the time so far", _duration),
    Field("cluster", "name of the cluster of its last attempt", _cluster),
    Field("place", "warm place of its last attempt, as the trial's page names it; none without one",
          _place),
    Field("machine", "name of its machine", _texts("machine_name", of_last_attempt)),
    Field("gpu", "index of a GPU that it used", _gpus),
    Field("exit_code", "of its last attempt", _numbers("exit_code", values.whole_number_for, of_last_attempt)),
    Field("attempt", "number of its last attempt; above 1 if it was run again",
          _numbers("number", values.whole_number_for, of_last_attempt)),
    Field("tag", "one of its tags", _tags),
    Field("message", "why it waits or failed", _texts("message")),
    Field("reason", "the code of the message: quota, gpu_held, exit_code ...", _reasons),
    Field("failure", "key of a cause of failures, as the overview's links have it", _texts_or_none("failure")),
    Field("source", "who chose its parameters: tuner, customized, rerun", _choices("source", TrialSource.values)),
    Field("code_variant", "hash of its changes to the code, or ~ and its beginning; none without changes", _variant),
    Field("created", "2026-01-31, 2026-01-31T18:30 (UTC), 2h ago", _times("created_at")),
    Field("started", "a time, likewise", _times("started_at")),
    Field("ended", "a time, likewise", _times("ended_at")),
    Field("id", "the trial's id", _texts("public_id")),
]}
#: Names that REST or NNI use for the same.
OTHER_NAMES = {"sequence_id": "number", "final_value": "result", "final_number": "result", "final": "result",
               "latest_number": "latest", "intermediate_count": "intermediates", "gpus": "gpu", "gpu_indices": "gpu",
               "tags": "tag", "on_front": "front",
               "created_at": "created", "started_at": "started", "ended_at": "ended"}


def metric_condition(comparison: Comparison, metric: int, column: str) -> Q:
    """Of a further metric (its primary key), ``column`` final or latest: answered from an index, not trial by trial."""

    def of_metric(inner: Q) -> Q:
        return Q(pk__in=MetricNumber.objects.filter(inner, metric=metric).values("trial"))

    return _compared(comparison, column, values.number_for, of_metric)


def with_parameters(inner: Any) -> Q:
    """Trials whose parameters are like this; of several sets those of the one whose result is the trial's."""
    return Q(Exists(TrialParameters.objects.filter(inner, trial=OuterRef("pk"), index=OuterRef("result_index"))))


def parameter_condition(comparison: Comparison, names: tuple[str, ...]) -> Q:
    """Numbers are compared as numbers; true, false and texts as text."""
    operator, terms = comparison.operator, comparison.values
    as_text = TextAt("value", names)
    if operator in ("=", "!=") and values.is_none(terms[0]):
        present = with_parameters(IsNull(as_text, False))
        return present if operator == "!=" else ~present
    if operator in _ORDER:
        limit = values.number_for(comparison.path, terms[0])
        return with_parameters(_ORDER_OF_EXPRESSIONS[operator](NumberAt("value", names), limit))
    if operator == "~":
        return with_parameters(IContains(as_text, terms[0].text))
    equal = with_parameters(_equal(names, terms))
    if operator == "!=":
        return with_parameters(IsNull(as_text, False)) & ~equal
    return equal


def _equal(names: tuple[str, ...], terms: Sequence[Term]) -> Q:
    found = Q()
    for term in terms:
        text = term.text.lower() if not term.is_quoted and term.text in ("True", "False") else term.text
        found |= Q(Exact(TextAt("value", names), text))
        if (limit := values.number(term)) is not None:
            found |= Q(Exact(NumberAt("value", names), limit))
    return found


def has_parameter(names: tuple[str, ...]) -> Q:
    """For rows of TrialParameters: there is something of this name."""
    return Q(IsNull(TypeAt("value", names), False))


def text_condition(text: str) -> Q:
    """The trial's number; or the start of its id, or text in its message or parameters."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return Q(sequence_id=int(text))
    parameters = TrialParameters.objects.annotate(text=Cast("value", TextField())).filter(
        trial=OuterRef("pk"), text__icontains=text)
    return Q(public_id__startswith=text) | Q(message__icontains=text) | Q(Exists(parameters))
