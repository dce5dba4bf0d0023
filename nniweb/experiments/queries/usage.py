"""Who uses how much: trials and GPUs at the moment, and GPU-hours, of each person and group.

Counted by the database: it takes a few statements, however many trials there are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DateTimeField,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Greatest

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial, User
from nniweb.experiments.models.experiment_cluster import TAKES_TRIALS, of_cluster
from nniweb.experiments.results.settled_trials import Settled, beyond, settled_of
from nniweb.experiments.sql.seconds_between import SecondsBetween
from trainingservice.trial_job_status import TrialJobStatus

_WAITING = TrialJobStatus.WAITING.value
#: GPUs that a trial asks for on the cluster of an attempt.
_ASKED = Coalesce(
    Subquery(ExperimentCluster.objects.filter(
        experiment=OuterRef("trial__experiment"), cluster=OuterRef("cluster")).values("gpus_of_a_trial")[:1]),
    F("trial__experiment__gpus_of_a_trial"), output_field=BigIntegerField())


@dataclass
class Usage:
    """Of one person's experiments that are shared with one group, or with none."""

    #: User name, None where the person is gone.
    user: str | None
    group: str | None
    running: int = 0
    waiting: int = 0
    #: GPUs that the running trials ask for.
    gpus: int = 0
    #: GPUs that trials asked for, times the hours that they ran.
    gpu_hours: float = 0.0


def usage(reader: User, now: datetime, *, cluster: Cluster | None = None, days: int | None = None) -> list[Usage]:
    """The rows that this person may see: administrators all, others those of their own and their groups' experiments.

    Who uses most at the moment comes first. ``cluster``: what runs or ran there, and what waits and may run there;
    ``days``: GPU-hours of the last so many days alone. Experiments that were deleted are not counted.
    """
    experiments = visible_experiments(reader)
    if cluster is not None:
        experiments = experiments.filter(of_cluster(cluster))
    found: dict[tuple[int | None, int | None], Usage] = {}

    def row(of: Iterable[Any]) -> Usage:
        owner, group, user, name = of
        return found.setdefault((owner, group), Usage(user, name))

    for *of, waiting in _waiting(experiments, cluster):
        row(of).waiting = waiting
    for *of, running, gpus in _running(experiments, cluster):
        each = row(of)
        each.running, each.gpus = running, int(gpus)  # PostgreSQL's sums are decimal numbers
    for *of, seconds in _seconds(experiments, cluster, now, days):
        row(of).gpu_hours += (seconds or 0.0) / 3600
    return sorted(found.values(), key=lambda each: (-each.gpus, -each.running, -each.gpu_hours, -each.waiting,
                                                    each.user or "", each.group or ""))


def _whose(way: str) -> list[str]:
    return [f"{way}owner", f"{way}group", f"{way}owner__username", f"{way}group__name"]


def _waiting(experiments: QuerySet[Any], cluster: Cluster | None) -> Iterable[tuple[Any, ...]]:
    waiting = Trial.objects.filter(status=_WAITING, experiment__in=experiments).order_by()
    if cluster is not None:
        sent = Attempt.objects.filter(trial=OuterRef("pk")).exclude(stage=Attempt.Stage.ENDED)
        taking = ExperimentCluster.objects.filter(TAKES_TRIALS, cluster=cluster)
        may_come = Q(experiment__several_clusters=False) | Q(experiment__in=taking.values("experiment"))
        waiting = waiting.filter(Q(Exists(sent.filter(_on(cluster)))) | ~Exists(sent) & may_come)
    return waiting.values_list(*_whose("experiment__")).annotate(waiting=Count("pk"))


def _running(experiments: QuerySet[Any], cluster: Cluster | None) -> Iterable[tuple[Any, ...]]:
    running = Attempt.objects.under_way().filter(_on(cluster), trial__experiment__in=experiments).exclude(
        trial__status=_WAITING).order_by()
    return running.values_list(*_whose("trial__experiment__")).annotate(
        running=Count("pk"), gpus=Sum(Coalesce("charged_gpus", _ASKED)))


def _on(cluster: Cluster | None) -> Q:
    """Attempts on it; None: on any."""
    return Q() if cluster is None else Q(cluster=cluster) | Q(cluster=None, trial__experiment__cluster=cluster)


def _seconds(experiments: QuerySet[Any], cluster: Cluster | None, now: datetime, days: int | None
             ) -> Iterator[tuple[Any, ...]]:
    """GPU-seconds of all attempts: each submission of a trial held its GPUs. Of trials that ended long ago they are
    kept, unless the experiment has several clusters or the period begins among them. Some rows may be of the same
    person and group.
    """
    since = None if days is None else now - timedelta(days=days)
    chosen = experiments.filter(Q(gpus_of_a_trial__gt=0) | Q(several_clusters=True))
    keys = dict(chosen.filter(settled_trials__isnull=False, several_clusters=False).values_list(
        "pk", "gpus_of_a_trial"))
    kept = {key: one for key, one in (settled_of(keys) if keys else {}).items() if _is_kept_of(one, since)}
    yield from _seconds_of(Q(trial__experiment__in=chosen.exclude(pk__in=kept)) & _on(cluster), now, since)
    if not kept:
        return
    for key, *of in Experiment.objects.filter(pk__in=kept).values_list("pk", *_whose("")):
        one = kept[key]
        if since is None or one.first_began is not None and one.first_began >= since:
            yield *of, keys[key] * one.seconds
    for condition in beyond(kept, "trial__"):
        yield from _seconds_of(condition, now, since)


def _is_kept_of(settled: Settled, since: datetime | None) -> bool:
    """Whether all that is kept lies in the period, or none of it."""
    return since is None or settled.first_began is None or settled.last_ended is None or \
        settled.first_began >= since or settled.last_ended < since


def _seconds_of(condition: Q, now: datetime, since: datetime | None) -> Iterable[tuple[Any, ...]]:
    ran = Attempt.objects.filter(condition, started_at__isnull=False).order_by()
    # of an attempt that has ended and does not say when, the server knows when it heard of it
    end = Case(When(stage=Attempt.Stage.ENDED, then=Coalesce("ended_at", "end_received_at", "started_at")),
               default=Value(now, output_field=DateTimeField()))
    begin: Any = F("started_at")
    if since is not None:
        ran = ran.exclude(stage=Attempt.Stage.ENDED, ended_at__lt=since)
        begin = Greatest(begin, Value(since, output_field=DateTimeField()))
    # a clock of another machine may say an end before the beginning
    seconds = Greatest(SecondsBetween(begin, end), Value(0.0))
    return ran.values_list(*_whose("trial__experiment__")).annotate(
        seconds=Sum(_ASKED * seconds))
