"""How far experiments are: counts, best trial, time left. A few queries, however many experiments are asked for."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Case, Count, F, OuterRef, Subquery, When

from nniweb.experiments.models import Cluster, Experiment, Proposal, Trial
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import RESULTS, counts_for_best
from nniweb.experiments.results.running_time import running_seconds
from nniweb.experiments.results.settled_trials import trial_counts
from trainingservice.trial_job_status import ENDS, TrialJobStatus


@dataclass(frozen=True)
class Progress:
    """Where an experiment stands. Times in seconds; None where it cannot be said."""

    #: Every trial status, with how many trials are in it.
    counts: dict[str, int]
    #: Of the results that satisfy the constraints on outcomes. With replicates the mean of the best proposal that was
    #: run in full; then its trial is the first one.
    best_value: float | None
    #: Public id of the trial with the best value, the earliest of equals.
    best_trial_id: str | None
    best_sequence_id: int | None
    #: With replicates, of the best proposal: the standard error of the mean, and how many values it is of.
    best_standard_error: float | None
    best_replicates: int | None
    #: Trials on the Pareto front; None with one objective. With several no trial is the best.
    front: int | None
    #: Time spent in RUNNING.
    elapsed: float
    #: Part of maxTrialNumber or of maxExperimentDuration that is over, the greater one; 0 to 1.
    fraction: float | None
    #: Time left at the pace so far; also None while the cluster cannot be used.
    eta: float | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        return sum(count for status, count in self.counts.items() if TrialJobStatus(status) in ENDS)


def progress_of(experiments: Iterable[Experiment], now: datetime) -> dict[int, Progress]:
    """The progress of each experiment, by primary key."""
    experiments = list(experiments)
    keys = [experiment.pk for experiment in experiments]
    none = dict.fromkeys([status.value for status in TrialJobStatus], 0)
    counts = {key: {**none, **found} for key, found in trial_counts(keys).items()}
    several = [experiment.pk for experiment in experiments if experiment.has_several_objectives]
    fronts = dict.fromkeys(several, 0) | _front_sizes(several)
    with_results = {key for key in keys if key not in fronts and any(counts[key][status] for status in RESULTS)}
    repeated = {experiment.pk for experiment in experiments if experiment.has_replicates} & with_results
    best_trials = _best_trials(sorted(with_results - repeated)) | _best_proposals(sorted(repeated))
    result = {}
    for experiment in experiments:
        best = best_trials.get(experiment.pk, _BestTrial(None, None, None))
        elapsed = running_seconds(experiment, now)
        ended = sum(counts[experiment.pk][end.value] for end in ENDS)
        result[experiment.pk] = Progress(
            counts=counts[experiment.pk], best_value=best.value, best_trial_id=best.public_id,
            best_sequence_id=best.sequence_id, best_standard_error=best.standard_error, best_replicates=best.replicates,
            front=fronts.get(experiment.pk), elapsed=elapsed,
            fraction=_fraction(experiment, ended, elapsed), eta=_eta(experiment, ended, elapsed))
    return result


def _front_sizes(experiment_keys: list[int]) -> dict[int, int]:
    if not experiment_keys:
        return {}
    marked = Trial.objects.filter(experiment__in=experiment_keys, on_front=True)
    return dict(marked.values_list("experiment").annotate(Count("pk")).order_by())


class _BestTrial(NamedTuple):
    value: float | None
    public_id: str | None
    sequence_id: int | None
    standard_error: float | None = None
    replicates: int | None = None


def _best_trials(experiment_keys: list[int]) -> dict[int, _BestTrial]:
    """The best trial of each experiment that has one."""
    if not experiment_keys:
        return {}
    results = Trial.objects.filter(counts_for_best(), experiment=OuterRef("pk"))
    greatest = Subquery(results.order_by("-final_number", "sequence_id").values("pk")[:1])
    least = Subquery(results.order_by("final_number", "sequence_id").values("pk")[:1])
    best = Case(When(optimize_mode=Experiment.OptimizeMode.MAXIMIZE, then=greatest), default=least)
    keys = Experiment.objects.filter(pk__in=experiment_keys).annotate(best=best).values("best")
    rows = Trial.objects.filter(pk__in=keys).values_list("experiment", "final_number", "public_id", "sequence_id")
    return {experiment: _BestTrial(value, public_id, sequence_id) for experiment, value, public_id, sequence_id in rows}


def _best_proposals(experiment_keys: list[int]) -> dict[int, _BestTrial]:
    """As ``_best_trials``, where proposals are run several times: the best mean of those that were run in full."""
    if not experiment_keys:
        return {}
    complete = Proposal.objects.filter(experiment=OuterRef("pk"), state=ProposalState.COMPLETE, mean__isnull=False)
    greatest = Subquery(complete.order_by("-mean", "first_sequence_id").values("pk")[:1])
    least = Subquery(complete.order_by("mean", "first_sequence_id").values("pk")[:1])
    best = Case(When(optimize_mode=Experiment.OptimizeMode.MAXIMIZE, then=greatest), default=least)
    keys = Experiment.objects.filter(pk__in=experiment_keys).annotate(best=best).values("best")
    rows = Trial.objects.filter(proposal__in=keys, sequence_id=F("proposal__first_sequence_id")).values_list(
        "experiment", "public_id", "sequence_id", "proposal__mean", "proposal__standard_error", "proposal__value_count")
    return {experiment: _BestTrial(mean, public_id, sequence_id, error, count)
            for experiment, public_id, sequence_id, mean, error, count in rows}


def _fraction(experiment: Experiment, ended: int, elapsed: float) -> float | None:
    if experiment.status == ExperimentStatus.DONE:
        return 1.0
    parts = []
    if experiment.max_trial_number:
        parts.append(ended / experiment.max_trial_number)
    if experiment.max_duration:
        parts.append(elapsed / experiment.max_duration)
    return min(1.0, max(parts)) if parts else None


def _eta(experiment: Experiment, ended: int, elapsed: float) -> float | None:
    if experiment.status not in (ExperimentStatus.RUNNING, ExperimentStatus.NO_MORE_TRIAL) \
            or experiment.cluster.health in (Cluster.Health.AWAY, Cluster.Health.BAD):
        return None
    left = []
    if experiment.max_trial_number and ended:
        left.append(max(0, experiment.max_trial_number - ended) * elapsed / ended)
    if experiment.max_duration:
        left.append(max(0.0, experiment.max_duration - elapsed))
    return min(left) if left else None
