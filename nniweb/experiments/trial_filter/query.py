"""A filter in words, asked of an experiment's trials."""

from datetime import datetime

from django.db.models import Q, QuerySet

from nniweb.experiments.config.field_walk import nearest
from nniweb.experiments.models import Experiment, Trial, TrialParameters
from nniweb.experiments.trial_filter.conditions import (
    FIELDS,
    OTHER_NAMES,
    has_parameter,
    parameter_condition,
    text_condition,
)
from nniweb.experiments.trial_filter.language import (
    Comparison,
    Expression,
    FilterInvalid,
    Joined,
    Not,
    Path,
    Text,
    parse,
)
from nniweb.experiments.trial_filter.parameter_names import parameter_names

#: Before a name: it is a parameter's, also where a field has the same.
PREFIXES = ("parameters", "parameter")


def fitting_trials(trials: QuerySet[Trial], text: str, experiment: Experiment, now: datetime) -> QuerySet[Trial]:
    """Those of the experiment's trials that fit. Raises FilterInvalid."""
    return trials.filter(_Reading(experiment, now).condition(parse(text)))


class _Reading:
    """One filter's, for one experiment."""

    def __init__(self, experiment: Experiment, now: datetime) -> None:
        self._experiment, self._now = experiment, now
        self._names: list[str] | None = None

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
        if len(names) > 1 and names[0].lower() in PREFIXES:
            names = names[1:]
        self._must_be_there(path, names)
        return parameter_condition(comparison, names)

    def _must_be_there(self, path: Path, names: tuple[str, ...]) -> None:
        if self._names is None:
            self._names = parameter_names(self._experiment)
        if ".".join(names) in self._names or (len(names) == 1 and names[0] in (self._experiment.search_space or {})):
            return
        rows = TrialParameters.objects.filter(trial__experiment=self._experiment, index=0)
        if rows.filter(has_parameter(names)).exists():
            return
        near = nearest(str(path), [*self._names, *FIELDS])
        raise FilterInvalid(f"{str(path)!r} is neither a field nor a parameter of this experiment{near or '.'}",
                            path.start, path.end)
