"""How many trials an experiment may start in this round, by quotas, the cluster's limit and fair shares.

Made at most once a round, with a number of queries that depends neither on the number of experiments nor on what there
was before: the quotas, and, only where something is limited, what is under way and what waits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Max, Q

from nniweb.experiments.models import Cluster, Experiment, Quota, Trial
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.quotas.leash_limits import WAITS_FOR_OTHER_LEASH, hold
from nniweb.experiments.quotas.quota_limits import COLUMNS, Holder, Limits
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
    def of_round(cls, cluster: Cluster, staying_away: Collection[int] = ()) -> FairShares:
        """As it is now. ``staying_away``: experiments (primary keys) whose trials that were frozen for others do not go
        on yet, whatever room there is.
        """
        limits = Limits.now(cluster)
        if not limits:
            return cls(limits)
        under_way = holders_under_way()
        return cls(limits, under_way, _pending(cluster, under_way, staying_away))

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
            self.under_way[experiment.pk] = now = holder.with_more(number)
            if experiment.pk in self.pending:
                self.pending[experiment.pk] = (now, max(0, self.pending[experiment.pk][1] - number))


def room_now(experiment: Experiment, wanted: int) -> Room:
    """How many of ``wanted`` trials may start, whatever others wait. In the transaction that starts them: who starts
    something by the same quota elsewhere waits for its end, and sees it.
    """
    limits, holder = Limits.now(experiment.cluster), Holder.of(experiment)
    if wanted <= 0 or not limits.concerning(holder):
        return Room(max(0, wanted))
    hold([] if experiment.token_id is None else [experiment.token_id])
    list(Quota.objects.select_for_update().order_by("pk").values_list("pk"))
    under_way = holders_under_way()
    return room_for(under_way.get(experiment.pk) or holder, wanted, limits, under_way)


def room_on_cluster(cluster: Cluster, experiment: Experiment) -> int:
    """How many trials more of an experiment with several clusters may be on this one, which has a limit: those of other
    experiments that wait for it count as in ``FairShares.room``.
    """
    limits = Limits((), cluster)
    under_way = holders_under_way()
    holder = (under_way.get(experiment.pk) or Holder.of(experiment)).at(cluster.pk)
    return room_for(holder, cluster.max_trials or 0, limits, under_way, _pending(cluster, under_way, ())).count


def _pending(cluster: Cluster, under_way: dict[int, Holder], staying_away: Collection[int]
             ) -> dict[int, tuple[Holder, int]]:
    has_code = Q(experiment__code_git__isnull=True) | Q(experiment__code__isnull=False)
    rows = Trial.objects.without_attempt().filter(
        has_code, ~Q(experiment__in=staying_away, target=TrialTarget.PREEMPTED), ~WAITS_FOR_OTHER_LEASH,
        experiment__cluster=cluster,
        experiment__status__in=STARTING, experiment__target=ExperimentTarget.RUN, experiment__deleted_at=None,
        status=TrialJobStatus.WAITING.value, target__in=[TrialTarget.RUN, TrialTarget.PREEMPTED]).values_list(
            *(f"experiment__{column}" for column in COLUMNS), "experiment__trial_concurrency",
            "experiment__status").annotate(number=Count("pk")).order_by()
    found = _with_claims(cluster.pk, under_way)
    for *whose, concurrency, status, waiting in rows:
        holder = under_way.get(whose[0]) or Holder.of_columns(whose)
        free = max(0, concurrency - holder.under_way)
        found[holder.pk] = (holder, free if status == ExperimentStatus.RUNNING else min(free, waiting))
    return found | (_pending_of_several(cluster.pk, under_way) if cluster.max_trials is not None else {})


def _pending_of_several(cluster_pk: int, under_way: dict[int, Holder]) -> dict[int, tuple[Holder, int]]:
    """Experiments with several clusters that would start trials here, were it not for this cluster's limit.

    A trial of theirs has no cluster as long as it waits. One of each experiment says what each cluster has said to it:
    where another reason is named for this cluster, the trial would not come, and no room is kept for it.
    """
    rows = list(Trial.objects.without_attempt().filter(
        experiment__several_clusters=True, experiment__cluster_rows__cluster=cluster_pk,
        experiment__cluster_rows__is_listed=True, experiment__status__in=STARTING,
        experiment__target=ExperimentTarget.RUN, experiment__deleted_at=None, reason="clusters_full",
        status=TrialJobStatus.WAITING.value, target=TrialTarget.RUN).values_list(
            *(f"experiment__{column}" for column in COLUMNS), "experiment__trial_concurrency", "experiment__status",
            "experiment__cluster_rows__up_to", "experiment__cluster_rows__cluster__name").annotate(
                number=Count("pk"), last=Max("pk")).order_by())
    said = dict(Trial.objects.filter(pk__in=[row[-1] for row in rows]).values_list("pk", "reason_arguments"))
    found = {}
    for *whose, concurrency, status, up_to, name, waiting, last in rows:
        if _code_of(name, said[last]) == "limit_there":
            holder = under_way.get(whose[0]) or Holder.of_columns(whose)
            here = holder.at(cluster_pk)
            free = max(0, min(concurrency - holder.under_way, concurrency if up_to is None else up_to - here.under_way))
            found[holder.pk] = (here, free if status == ExperimentStatus.RUNNING else min(free, waiting))
    return found


def _code_of(name: str, arguments: dict[str, Any]) -> str:
    """Of what a cluster said to a trial without room."""
    return next((one["code"] for one in arguments.get("clusters", ()) if one["cluster"] == name), "")


def _with_claims(cluster_pk: int, under_way: dict[int, Holder]) -> dict[int, tuple[Holder, int]]:
    """Searching experiments of more than the lowest priority, with all that they may still start.

    That an urgent one has no trial waiting at the moment, because its tuner is being asked, gives its place to nobody.
    """
    rows = list(Experiment.objects.filter(
        cluster=cluster_pk, status__in=STARTING, target=ExperimentTarget.RUN, deleted_at=None).values_list(
            *COLUMNS, "status", "trial_concurrency", "max_trial_number", "next_sequence_id"))
    # also of those that have made all of their trials: what they have frozen would take the place
    lowest = min((row[5] for row in rows), default=0)
    found = {}
    for *whose, status, concurrency, most, made in rows:
        holder = under_way.get(whose[0]) or Holder.of_columns(whose)
        if status == ExperimentStatus.RUNNING and holder.priority > lowest:
            left = concurrency if most is None else max(0, most - made)
            found[holder.pk] = (holder, min(left, max(0, concurrency - holder.under_way)))
    return found
