"""How many trials an experiment may start in this round, by quotas, the cluster's limit and fair shares.

Made at most once a round, with a number of queries that depends neither on the number of experiments nor on what there
was before: the quotas, and, only where something is limited, what is under way and what waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from django.db.models import Count, Exists, OuterRef, Q

from nniweb.experiments.models import Attempt, Cluster, Experiment, Quota, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.quotas.quota_limits import Holder, Limits
from nniweb.experiments.quotas.starting_trials import Room, holders_under_way, room_for
from trainingservice.trial_job_status import TrialJobStatus

#: Experiments in these start trials.
STARTING = (ExperimentStatus.RUNNING, ExperimentStatus.TUNER_NO_MORE_TRIAL, ExperimentStatus.NO_MORE_TRIAL)


@dataclass
class FairShares:
    """What one round knows of limits on one cluster. Used by the round's thread only."""

    limits: Limits
    #: Experiments of which something is under way, of all clusters.
    under_way: dict[int, Holder] = field(default_factory=dict)
    #: Experiments of this cluster with trials that wait without having been given to the platform, and how many more
    #: they would start.
    pending: dict[int, tuple[Holder, int]] = field(default_factory=dict)

    @classmethod
    def of_round(cls, cluster: Cluster) -> FairShares:
        """As it is now."""
        limits = Limits.now(cluster)
        if not limits:
            return cls(limits)
        under_way = holders_under_way()
        return cls(limits, under_way, _pending(cluster.pk, under_way))

    def room(self, experiment: Experiment, wanted: int) -> Room:
        """How many of ``wanted`` trials of this experiment may start now, and why not all."""
        holder = self.under_way.get(experiment.pk) or Holder.of(experiment)
        if wanted <= 0 or not self.limits.concerning(holder):
            return Room(max(0, wanted))
        return room_for(holder, wanted, self.limits, self.under_way, self.pending)

    def started(self, experiment: Experiment, number: int) -> None:
        """So many of the room were used."""
        if self.limits and number:
            holder = self.under_way.get(experiment.pk) or Holder.of(experiment)
            self.under_way[experiment.pk] = now = replace(holder, under_way=holder.under_way + number)
            if experiment.pk in self.pending:
                self.pending[experiment.pk] = (now, max(0, self.pending[experiment.pk][1] - number))


def room_now(experiment: Experiment, wanted: int) -> Room:
    """How many of ``wanted`` trials may start, whatever others wait. In the transaction that starts them: who starts
    something by the same quota elsewhere waits for its end, and sees it.
    """
    limits, holder = Limits.now(experiment.cluster), Holder.of(experiment)
    if wanted <= 0 or not limits.concerning(holder):
        return Room(max(0, wanted))
    list(Quota.objects.select_for_update().order_by("pk").values_list("pk"))
    under_way = holders_under_way()
    return room_for(under_way.get(experiment.pk) or holder, wanted, limits, under_way)


def _pending(cluster_pk: int, under_way: dict[int, Holder]) -> dict[int, tuple[Holder, int]]:
    never_given = ~Exists(Attempt.objects.filter(trial=OuterRef("pk")))
    has_code = Q(experiment__code_git__isnull=True) | Q(experiment__code__isnull=False)
    rows = Trial.objects.filter(
        never_given, has_code, experiment__cluster=cluster_pk, experiment__status__in=STARTING,
        experiment__target=ExperimentTarget.RUN, experiment__deleted_at=None, status=TrialJobStatus.WAITING.value,
        target=TrialTarget.RUN).values_list(
            "experiment", "experiment__owner", "experiment__group", "experiment__cluster",
            "experiment__gpus_of_a_trial", "experiment__trial_concurrency", "experiment__status").annotate(
                number=Count("pk")).order_by()
    found = {}
    for pk, owner, group, cluster, gpus, concurrency, status, waiting in rows:
        holder = under_way.get(pk) or Holder(pk, owner, group, cluster, gpus)
        free = max(0, concurrency - holder.under_way)
        found[pk] = (holder, free if status == ExperimentStatus.RUNNING else min(free, waiting))
    return found
