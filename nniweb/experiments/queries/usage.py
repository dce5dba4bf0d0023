"""Who uses how much: trials and GPUs at the moment, and GPU-hours, of each person and group.

Counted by the database: it takes a few statements, however many trials there are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, DateTimeField, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest

from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, User
from nniweb.experiments.results.settled_trials import Settled, beyond, settled_of
from nniweb.experiments.sql.seconds_between import SecondsBetween
from trainingservice.trial_job_status import TrialJobStatus

_WAITING = TrialJobStatus.WAITING.value


@dataclass
class Usage:
    """Of one person's experiments that are shared with one group, or with none."""

    #: User name, None where the person is gone.
    user: str | None
    group: str | None
    running: int = 0
    waiting: int = 0
    #: GPUs that the running trials ask for, as quotas count them.
    gpus: int = 0
    #: GPUs that trials asked for, times the hours that they ran.
    gpu_hours: float = 0.0


def usage(reader: User, now: datetime, *, cluster: Cluster | None = None, days: int | None = None) -> list[Usage]:
    """The rows that this person may see: administrators all, others those of their own and their groups' experiments.

    Who uses most at the moment comes first. ``cluster``: only there; ``days``: GPU-hours of the last so many days
    alone. Experiments that were deleted are not counted.
    """
    experiments = visible_experiments(reader)
    if cluster is not None:
        experiments = experiments.filter(cluster=cluster)
    found: dict[tuple[int | None, int | None], Usage] = {}

    def row(of: Iterable[Any]) -> Usage:
        owner, group, user, name = of
        return found.setdefault((owner, group), Usage(user, name))

    for *of, running, waiting, gpus in _now(experiments):
        each = row(of)
        each.running, each.waiting, each.gpus = running, waiting, gpus or 0
    for *of, seconds in _seconds(experiments, now, days):
        row(of).gpu_hours += (seconds or 0.0) / 3600
    return sorted(found.values(), key=lambda each: (-each.gpus, -each.running, -each.gpu_hours, -each.waiting,
                                                    each.user or "", each.group or ""))


def _whose(way: str) -> list[str]:
    return [f"{way}owner", f"{way}group", f"{way}owner__username", f"{way}group__name"]


def _now(experiments: QuerySet[Any]) -> Iterable[tuple[Any, ...]]:
    unfinished = Trial.objects.unfinished().filter(experiment__in=experiments).order_by()
    return unfinished.values_list(*_whose("experiment__")).annotate(
        running=Count("pk", filter=~Q(status=_WAITING)), waiting=Count("pk", filter=Q(status=_WAITING)),
        gpus=Sum("experiment__gpus_of_a_trial", filter=~Q(status=_WAITING)))


def _seconds(experiments: QuerySet[Any], now: datetime, days: int | None) -> Iterator[tuple[Any, ...]]:
    """GPU-seconds of all attempts: each submission of a trial held its GPUs. Of trials that ended long ago they are
    kept, unless the period begins among them. Some rows may be of the same person and group.
    """
    since = None if days is None else now - timedelta(days=days)
    chosen = experiments.filter(gpus_of_a_trial__gt=0)
    keys = dict(chosen.filter(settled_trials__isnull=False).values_list("pk", "gpus_of_a_trial"))
    kept = {key: one for key, one in (settled_of(keys) if keys else {}).items() if _is_kept_of(one, since)}
    yield from _seconds_of(Q(trial__experiment__in=chosen.exclude(pk__in=kept)), now, since)
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
        seconds=Sum(F("trial__experiment__gpus_of_a_trial") * seconds))
