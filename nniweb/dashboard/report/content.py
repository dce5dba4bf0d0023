"""What an experiment's report says: read once, of a size that does not grow with the number of trials."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils import timezone

from nniweb.api.experiments.experiment_changes import changes_of
from nniweb.dashboard.experiment_tabs.head import counts_by_status, result_title
from nniweb.dashboard.experiment_tabs.overview import best_trials
from nniweb.dashboard.experiment_tabs.trial_columns import FEW_PARAMETERS, parameter_columns
from nniweb.dashboard.report.charts import LEFT, RIGHT, Axis, Chart, Tick, chart
from nniweb.dashboard.words import digits_apart
from nniweb.documents.experiments import document
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.actions.changes import in_words
from nniweb.experiments.charts.intermediate_series import Which, series_of_which
from nniweb.experiments.charts.parameter_axes import Column
from nniweb.experiments.charts.parameter_columns import results_of
from nniweb.experiments.charts.parameter_importance import NotWorkedOut, importance_of
from nniweb.experiments.charts.pareto_chart import pareto_chart_of
from nniweb.experiments.charts.result_chart import chart_of
from nniweb.experiments.models import Experiment, TrialNote
from nniweb.experiments.queries.failures import failures_of
from trainingservice.limited_yaml import yaml_text

#: Rows of the table of trials, the best ones.
MOST_TRIALS = 100
#: Curves of intermediate results, of the best trials.
MOST_CURVES, POINTS_OF_CURVE = 8, 200
#: Important parameters that are listed, and of which a chart is drawn.
MOST_IMPORTANT, MOST_DRAWN = 20, 4
MOST_FAILURES = 20
MOST_CHANGES = 100
#: Names under a chart, and characters of one.
_MOST_NAMES, _LONGEST_NAME = 12, 14
_NARROW = 350.0


@dataclass(frozen=True)
class Important:
    """A parameter that matters. ``importance``: 0 to 1. ``correlation``: -1 to 1, None where it has no order."""

    name: str
    importance: float
    correlation: float | None


class ReportContent:
    """Of an experiment that its reader may see; ``experiment`` as it was read from the database just now."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.at = timezone.now()
        self.document = document(experiment, self.at)

    @cached_property
    def result_title(self) -> str:
        return result_title(self._experiment)

    @cached_property
    def objectives(self) -> list[str]:
        """Their names where there are several, else none."""
        return [one["metric"] for one in self._experiment.objectives] if self._experiment.has_several_objectives else []

    @cached_property
    def trials(self) -> Sequence[dict[str, Any]]:
        """The best ones as REST has them, the best first."""
        best = with_details(best_trials(self._experiment)[:MOST_TRIALS])
        return list(TrialSerializer(best, many=True, context={"now": self.at}).data)

    @cached_property
    def trial_notes(self) -> list[tuple[int, str]]:
        """Number and Markdown, of those in the table about which somebody has written."""
        written = TrialNote.objects.filter(trial__public_id__in=[trial["id"] for trial in self.trials])
        return list(written.order_by("trial__sequence_id").values_list("trial__sequence_id", "text"))

    @cached_property
    def result_digits(self) -> int:
        return digits_apart(trial["final_number"] for trial in self.trials)

    @cached_property
    def parameter_names(self) -> list[str]:
        """The columns of the table; none where one column has all parameters: more do not fit on paper."""
        names = parameter_columns(self._experiment)
        return names if len(names) <= FEW_PARAMETERS else []

    @property
    def counts(self) -> list[tuple[str, int]]:
        return [(status, count) for status, count in counts_by_status(self.document["progress"]["trials"]) if count]

    @cached_property
    def failures(self) -> Sequence[Any]:
        return failures_of(self._experiment, MOST_FAILURES)

    @property
    def search_space(self) -> str:
        space = self._experiment.search_space
        return json.dumps(space, indent=2, ensure_ascii=False) if space else ""

    @property
    def resolved(self) -> str:
        return yaml_text(self.document["config"])

    @cached_property
    def changes(self) -> list[tuple[Any, Any]]:
        return [(change, in_words(change)) for change in changes_of(self._experiment)[:MOST_CHANGES]]

    @cached_property
    def charts(self) -> list[tuple[str, Chart]]:
        """With their headings; none without anything to draw."""
        drawn = [("Pareto front", self._front()), ("Results", self._results()), ("Intermediate results of the best",
                                                                               self._curves())]
        return [(heading, found) for heading, found in drawn if found is not None]

    def _results(self) -> Chart | None:
        shown = chart_of(self._experiment)
        points = [(float(point.sequence_id), point.value, point) for point in shown.points
                  if point.value is not None and math.isfinite(point.value)]
        if not points:
            return None
        drawn = chart(f"{self.result_title} of each trial, and the best so far", [x for x, _, _ in points],
                      [value for _, value, _ in points], ("trial", self.result_title))
        drawn.dots("other", [(x, value) for x, value, point in points if not point.counts])
        drawn.dots("result", [(x, value) for x, value, point in points if point.counts])
        if shown.mode is not None and not self.objectives:
            counted = [(x, value) for x, value, point in points if point.counts]
            drawn.line("best", list(_best_so_far(counted, shown.mode == Experiment.OptimizeMode.MAXIMIZE)), steps=True)
        return drawn

    def _front(self) -> Chart | None:
        if not self.objectives:
            return None
        points = [point for point in pareto_chart_of(self._experiment).points
                  if all(map(math.isfinite, point.values[:2]))]
        if not points:
            return None
        first, second = self.objectives[:2]
        drawn = chart(f"{first} and {second} of each trial; those on the front are marked",
                      [point.values[0] for point in points], [point.values[1] for point in points], (first, second))
        drawn.dots("other", [(point.values[0], point.values[1]) for point in points if not point.on_front])
        drawn.dots("front", [(point.values[0], point.values[1]) for point in points if point.on_front])
        return drawn

    def _curves(self) -> Chart | None:
        found = [one for one in series_of_which(self._experiment, Which.TOP, MOST_CURVES, POINTS_OF_CURVE).series
                 if len(one.steps) > 1 and all(map(math.isfinite, one.values))]
        if not found:
            return None
        drawn = chart(f"Intermediate results of the {len(found)} best trials that have them",
                      [float(step) for one in found for step in one.steps],
                      [value for one in found for value in one.values], ("step", self.result_title), cut=False)
        for place, one in reversed(list(enumerate(found))):  # the best is on top
            drawn.line("best" if place == 0 else "curve", list(zip(map(float, one.steps), one.values, strict=True)))
        return drawn

    @cached_property
    def _importance(self) -> tuple[list[Important], str]:
        results = results_of(self._experiment)
        try:
            found = importance_of(self._experiment.pk, results)
        except NotWorkedOut as problem:
            return [], str(problem)
        listed = [Important(column.axis.name, one["importance"], one["correlation"])
                  for column, one in zip(results.columns, found.parameters, strict=False) if one["importance"]]
        return sorted(listed, key=lambda one: -one.importance)[:MOST_IMPORTANT], ""

    @property
    def important(self) -> list[Important]:
        """The parameters that matter, the most important first; none while too few trials have a result."""
        return self._importance[0]

    @property
    def no_importance(self) -> str:
        """Why their importance is not known, "" where nothing went wrong."""
        return self._importance[1]

    @cached_property
    def parameter_charts(self) -> list[Chart]:
        """Of the most important parameters: the result over the value."""
        results = results_of(self._experiment)
        columns = {column.axis.name: column for column in results.columns}
        return [drawn for one in self.important[:MOST_DRAWN]
                if (drawn := self._over(columns[one.name], results.values, results.drawn)) is not None]

    def _over(self, column: Column, values: Sequence[float], places: Sequence[int]) -> Chart | None:
        points = [(float(x), values[place]) for place in places
                  if (x := column.values[place]) is not None and math.isfinite(x) and math.isfinite(values[place])]
        if not points:
            return None
        axis = column.axis
        drawn = chart(f"{self.result_title} over {axis.name}", [x for x, _ in points], [y for _, y in points],
                      (axis.name, self.result_title), width=_NARROW, logarithmic=axis.logarithmic)
        if axis.kind == "category":
            across = Axis(-0.5, max(len(axis.options) - 0.5, 0.5), LEFT, _NARROW - RIGHT)
            every = math.ceil(len(axis.options) / min(_MOST_NAMES, max(1, 60 // _longest(axis.options))))
            drawn.across = across
            drawn.names = [Tick(across(place), _short(option)) for place, option in enumerate(axis.options)
                           if place % every == 0]
        drawn.dots("result", points)
        return drawn


def _best_so_far(points: Sequence[tuple[float, float]], greater: bool) -> Iterator[tuple[float, float]]:
    """Each improvement, and the end of the line."""
    best: float | None = None
    for x, value in points:
        if best is None or (value > best if greater else value < best):
            best = value
            yield x, value
    if best is not None and points:
        yield points[-1][0], best


def _short(option: Any) -> str:
    text = str(option)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME - 1]}…"


def _longest(options: Sequence[Any]) -> int:
    return max((len(_short(option)) for option in options), default=1)
