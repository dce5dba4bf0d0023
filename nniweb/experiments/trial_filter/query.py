"""A filter in words, asked of an experiment's trials."""

from datetime import datetime

from django.db.models import F, Q, QuerySet

from nniweb.experiments.config.fields.walk import nearest
from nniweb.experiments.models import Experiment, MetricName, Trial, TrialParameters
from nniweb.experiments.trial_filter.conditions import (
    FIELDS,
    OTHER_NAMES,
    has_parameter,
    metric_condition,
    parameter_condition,
    text_condition,
)
from nniweb.experiments.trial_filter.language import (
    Comparison,
    Expression,
    FilterInvalid,
    Joined,
    Not,
    Text,
    parse,
)
from nniweb.experiments.trial_filter.parameter_names import parameter_names
from trainingservice.words.shown_value import shown

#: Before a name: it is a parameter's, also where a field has the same.
PREFIXES = ("parameters", "parameter")
#: Before a further metric's name: in the final result, or in the latest intermediate one.
METRIC_PREFIXES = {"metrics": "final", "metric": "final", "latest": "latest"}


def fitting_trials(trials: QuerySet[Trial], text: str, experiment: Experiment, now: datetime) -> QuerySet[Trial]:
    """Those of the experiment's trials that fit. Raises FilterInvalid."""
    return trials.filter(_Reading(experiment, now).condition(parse(text)))


class _Reading:
    """One filter's, for one experiment."""

    def __init__(self, experiment: Experiment, now: datetime) -> None:
        self._experiment, self._now = experiment, now
        self._names: list[str] | None = None
        self._metrics: dict[str, int] | None = None

    def condition(self, expression: Expression) -> Q:
        if isinstance(expression, Joined):
            conditions = [self.condition(part) for part in expression.parts]
            return Q(*conditions, _connector=Q.AND if expression.all_of else Q.OR)
        if isinstance(expression, Not):
            return ~self.condition(expression.inner)
        if isinstance(expression, Text):
            return text_condition(expression.term.text)
        return self._compared(expression)

    def _compared(self, comparison: Comparison) -> Q:
        path = comparison.path
        name = path.parts[0].lower() if len(path.parts) == 1 and not path.is_quoted else ""
        if (field := FIELDS.get(OTHER_NAMES.get(name, name))) is not None:
            return field.condition(comparison, self._now)
        names = path.parts
        if len(names) > 1 and (column := METRIC_PREFIXES.get(names[0].lower())) is not None \
                and (metric := self._metric_named(names[1:])) is not None:
            return metric_condition(comparison, metric, column)
        if len(names) > 1 and names[0].lower() in PREFIXES:
            names = names[1:]
        if self._is_parameter(names):
            return parameter_condition(comparison, names)
        if names == path.parts and (metric := self._metric_named(names)) is not None:
            return metric_condition(comparison, metric, "final")
        near = nearest(str(path), [*(self._names or ()), *(self._metrics or ()), *FIELDS])
        raise FilterInvalid(f"{shown(str(path))} is neither a field nor a parameter nor a metric of this experiment"
                            f"{near or '.'}", path.start, path.end)

    def _metric_named(self, names: tuple[str, ...]) -> int | None:
        if self._metrics is None:
            self._metrics = dict(MetricName.objects.filter(experiment=self._experiment).values_list("name", "pk"))
        return self._metrics.get(".".join(names))

    def _is_parameter(self, names: tuple[str, ...]) -> bool:
        if self._names is None:
            self._names = parameter_names(self._experiment)
        if ".".join(names) in self._names or (len(names) == 1 and names[0] in (self._experiment.search_space or {})):
            return True
        rows = TrialParameters.objects.filter(
            trial__experiment=self._experiment, index=F("trial__result_index"))
        if self._metric_named(names) is not None:
            return False  # what follows reads the parameters of all trials
        return rows.filter(has_parameter(names)).exists()
