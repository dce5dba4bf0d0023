"""What the charts of hyper-parameters are made of: each trial with a result, its parameters in columns. Thread-safe."""

import json
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any

from django.db.models import Count, F, FilteredRelation, Max, Q, TextField
from django.db.models.functions import Cast

from nniweb.experiments.charts.parameter_axes import Column, columns_of
from nniweb.experiments.models import Experiment, MetricName, Trial, TrialParameters
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.results.best_so_far import evenly
from nniweb.experiments.results.other_metrics import main_metric, mode_of

#: Most trials that are drawn: lines beyond that cover each other.
MOST_DRAWN = 1_500
#: Of these so many are the best ones; the others are spread evenly over the order by result.
BEST_DRAWN = 500
#: Of many parameters fewer trials are drawn: so many values, a few hundred kilobytes, whatever their number is.
MOST_VALUES = 40_000
#: But no fewer trials than this.
FEWEST_DRAWN = 300
#: Rows that are read and parsed together.
READ_AT_ONCE = 5_000
#: Results of so many experiments are remembered.
MOST_REMEMBERED = 8


@dataclass(frozen=True)
class Results:
    """All trials with a result that counts, in order of sequence; or those with a final number of a further metric. A
    trial of a multi-phase experiment is there once for each parameter set that has a result. With replicates each
    proposal that has ended is there once, with its mean, by its first trial.
    """

    #: The further metric that is meant; None for the main one.
    metric: str | None

    #: Changes when a trial with a result comes or changes, or the search space does.
    version: tuple[int, int, int]
    #: Of the experiment when this was read, or a little earlier.
    revision: int
    greater_is_better: bool
    ids: list[str]
    sequence_ids: list[int]
    values: list[float]
    columns: list[Column]
    #: Places of those that are never the best: they break a constraint on outcomes, or were not run in full.
    uncounted: frozenset[int] = frozenset()

    @cached_property
    def best_first(self) -> list[int]:
        """Places of the trials, the best first; of equals the earlier one. Those that are never the best come last."""
        # sorting keeps the order of equals, also turned round
        places = sorted(range(len(self.values)), key=self.values.__getitem__, reverse=self.greater_is_better)
        return sorted(places, key=self.uncounted.__contains__) if self.uncounted else places

    @cached_property
    def rank(self) -> dict[int, int]:
        """Of a place: how many trials are better."""
        return {place: number for number, place in enumerate(self.best_first)}

    @cached_property
    def drawn(self) -> list[int]:
        """Places of the trials that are drawn, in order of sequence."""
        most = max(FEWEST_DRAWN, min(MOST_DRAWN, MOST_VALUES // max(1, len(self.columns))))
        if len(self.values) <= most:
            return list(range(len(self.values)))
        count = most * BEST_DRAWN // MOST_DRAWN
        best, others = self.best_first[:count], self.best_first[count:]
        return sorted([*best, *evenly(others, most - count)])


#: By experiment, further metric and direction.
_remembered: OrderedDict[tuple[int, str | None, str], Results] = OrderedDict()
_lock = Lock()


def results_of(experiment: Experiment, metric: str | None = None, otherwise: str = Experiment.OptimizeMode.MINIMIZE
               ) -> Results:
    """One small query where nothing came since the last time, else one more that reads the trials.

    ``metric``: of a further one. ``otherwise``: which of its numbers are better, where the experiment does not say.
    """
    if metric == main_metric(experiment.objectives):
        metric = None
    mode = str(experiment.optimize_mode) if metric is None else mode_of(experiment, metric) or otherwise
    key = (experiment.pk, metric, mode)
    trials = Trial.objects.filter(experiment=experiment, status__in=RESULTS)
    number_of = 0
    if metric is None and experiment.has_replicates:
        found = Trial.objects.filter(experiment=experiment, proposal__mean__isnull=False)
    elif metric is None:
        found = trials.filter(final_number__isnull=False)
    else:
        names = MetricName.objects.filter(experiment=experiment, name=metric)
        number_of = names.values_list("pk", flat=True).first() or 0
        found = trials.filter(metric_numbers__metric=number_of, metric_numbers__final__isnull=False)
    # pages ask again while trials still report: most of what raises the revision is no result
    count, newest = found.aggregate(count=Count("pk"), newest=Max("revision")).values()
    version = (experiment.search_space_version, count, newest or 0)
    with _lock:
        known = _remembered.get(key)
    if known is None or known.version != version:
        known = _read(experiment, version, metric, number_of, mode)
        with _lock:
            _remembered[key] = known
            _remembered.move_to_end(key)
            while len(_remembered) > MOST_REMEMBERED:
                _remembered.popitem(last=False)
    return known


def _read(experiment: Experiment, version: tuple[int, int, int], metric: str | None, number_of: int, mode: str
          ) -> Results:
    given = TrialParameters.objects.filter(trial__experiment=experiment, trial__status__in=RESULTS)
    uncounted = Q(trial__feasible=False)
    if metric is None and experiment.multi_phase:  # each parameter set of a trial has a result of its own
        given = given.annotate(number=F("final_number"))
    elif metric is None and experiment.has_replicates:  # each proposal once, by its first trial
        given = TrialParameters.objects.filter(
            trial__experiment=experiment, trial__sequence_id=F("trial__proposal__first_sequence_id")).exclude(
            trial__proposal__state=ProposalState.OPEN).filter(index=0).annotate(number=F("trial__proposal__mean"))
        uncounted = Q(trial__proposal__state=ProposalState.DROPPED)
    elif metric is None:
        given = given.filter(index=0).annotate(number=F("trial__final_number"))
    else:
        given = given.filter(index=F("trial__result_index")).annotate(
            of_metric=FilteredRelation("trial__metric_numbers", condition=Q(trial__metric_numbers__metric=number_of)),
            number=F("of_metric__final"))
    rows = given.filter(number__isnull=False).annotate(text=Cast("value", TextField()), uncounted=uncounted).order_by(
        "trial__sequence_id", "index").values_list("trial__public_id", "trial__sequence_id", "number", "text",
                                                   "uncounted").iterator(READ_AT_ONCE)
    ids: list[str] = []
    sequence_ids: list[int] = []
    values: list[float] = []
    points: list[Any] = []
    behind: set[int] = set()
    while chunk := list(islice(rows, READ_AT_ONCE)):
        behind.update(len(ids) + place for place, row in enumerate(chunk) if row[4])
        ids += [row[0] for row in chunk]
        sequence_ids += [row[1] for row in chunk]
        values += [float(row[2] or 0.0) for row in chunk]
        points += json.loads(f"[{','.join(row[3] or 'null' for row in chunk)}]")  # one by one takes four times as long
    return Results(metric, version, experiment.revision, mode == Experiment.OptimizeMode.MAXIMIZE, ids, sequence_ids,
                   values, columns_of(experiment.search_space, points), frozenset(behind))
