"""Where a trial's result stands among all of its experiment's."""

from dataclasses import dataclass

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import RESULTS, counts_for_best


@dataclass(frozen=True)
class Rank:
    """1 is the best; equal results share a place."""

    place: int
    of: int


def rank_of(trial: Trial) -> Rank | None:
    """None for a trial whose result does not count, and where trials have no order of their own: with several
    objectives, and with replicates. Two counts over the index of results.
    """
    experiment = trial.experiment
    if trial.final_number is None or trial.status not in RESULTS or trial.feasible is False \
            or experiment.has_several_objectives or experiment.has_replicates:
        return None
    counted = Trial.objects.filter(counts_for_best(), experiment=experiment)
    greater = experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE
    better = counted.filter(**{"final_number__gt" if greater else "final_number__lt": trial.final_number})
    return Rank(better.count() + 1, counted.count())
