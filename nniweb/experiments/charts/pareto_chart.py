"""What the chart of the Pareto front shows: the front itself, and of the other results an even choice."""

from dataclasses import dataclass

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.results.best_so_far import evenly
from nniweb.experiments.results.objectives import names_of_objectives, values_of

#: Most trials that are drawn, of the front and of the others.
MOST_ON_FRONT, MOST_OTHERS = 2000, 1500


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A trial with a number for every objective."""

    id: str
    sequence_id: int
    on_front: bool
    values: list[float]


@dataclass(frozen=True)
class ParetoChart:
    objectives: list[str]
    #: In order of sequence.
    points: list[ParetoPoint]
    #: Trials with a result of which only some are here.
    left_out: int
    revision: int


def pareto_chart_of(experiment: Experiment) -> ParetoChart:
    """Read after the experiment's own row was. Of trials that are not drawn only keys are read."""
    trials = Trial.objects.filter(experiment=experiment, status__in=RESULTS, final_number__isnull=False)
    front = list(Trial.objects.filter(experiment=experiment, on_front=True).order_by("sequence_id").values_list(
        "pk", flat=True))
    others = list(trials.filter(on_front=False).order_by("sequence_id").values_list("pk", flat=True))
    drawn = [*evenly(front, MOST_ON_FRONT), *evenly(others, MOST_OTHERS)]
    rows = list(Trial.objects.filter(pk__in=drawn).only("public_id", "sequence_id", "on_front", "final_number"))
    values = values_of(experiment, rows)
    points = [ParetoPoint(row.public_id, row.sequence_id, row.on_front, known) for row in rows
              if len(known := [value for value in values[row.pk] if value is not None]) == len(values[row.pk])]
    points.sort(key=lambda point: point.sequence_id)
    left_out = len(front) + len(others) - len(drawn)
    return ParetoChart(names_of_objectives(experiment), points, left_out, experiment.revision)
