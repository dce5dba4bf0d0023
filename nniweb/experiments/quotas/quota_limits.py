"""The limits of an experiment: quotas of its owner and of its group, the limit of its cluster, its token's leash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from django.db import connection

from nniweb.experiments.models import ApiToken, Cluster, Experiment, Quota
from nniweb.experiments.quotas.leash_limits import why_full
from trainingservice.reasons import Reason

#: Whose a limit is: a person's, that of each person without a quota, a group's, a cluster's.
PERSON, EACH_PERSON, GROUP, CLUSTER = "person", "each_person", "group", "cluster"

#: How limits are shared, for people.
Unit = Literal["trials", "gpus"]


#: Columns of an experiment of which a holder is made.
COLUMNS = ("pk", "owner", "group", "cluster", "gpus_of_a_trial", "priority", "several_clusters", "token")


@dataclass(frozen=True)
class Holder:
    """An experiment, as far as limits see it. ``under_way``: its trials that were given to the platform."""

    pk: int
    owner: int | None
    group: int | None
    cluster: int
    gpus_of_a_trial: int
    priority: int = 0
    under_way: int = 0
    several_clusters: bool = False
    #: Of one on several clusters, how many of them are on which (primary key).
    on: Mapping[int, int] = field(default_factory=dict)
    #: The token by which it was launched, and how many of them count for which token (primary keys).
    token: int | None = None
    of_tokens: Mapping[int, int] = field(default_factory=dict)
    #: GPUs that they hold beyond ``gpus_of_a_trial`` each, because trials of this experiment asked for others before.
    more_gpus: int = 0

    @classmethod
    def of(cls, experiment: Experiment) -> Holder:
        return cls(experiment.pk, experiment.owner_id, experiment.group_id, experiment.cluster_id,
                   experiment.gpus_of_a_trial, experiment.priority, 0, experiment.several_clusters,
                   token=experiment.token_id)

    @classmethod
    def of_columns(cls, columns: Sequence[Any]) -> Holder:
        """Of the columns ``COLUMNS``, in their order."""
        pk, owner, group, cluster, gpus, priority, several_clusters, token = columns
        return cls(pk, owner, group, cluster, gpus, priority, 0, several_clusters, token=token)

    def with_more(self, number: int) -> Holder:
        """With so many trials more under way, which count for its own token."""
        of_tokens = self.of_tokens if self.token is None else {
            **self.of_tokens, self.token: self.of_tokens.get(self.token, 0) + number}
        return replace(self, under_way=self.under_way + number, of_tokens=of_tokens)

    def at(self, cluster_pk: int) -> Holder:
        """The experiment as if this were its only cluster."""
        if not self.several_clusters:
            return self
        return replace(self, cluster=cluster_pk, several_clusters=False, under_way=self.on.get(cluster_pk, 0))


@dataclass(frozen=True)
class Limit:
    """At most ``most`` trials (or GPUs of trials) of one owner, group, cluster or token."""

    of: tuple[str, int]  #: ("owner" or "group" or "cluster" or "token", primary key)
    unit: Unit
    most: int
    #: Whose it is, for people: one of PERSON, EACH_PERSON, GROUP and CLUSTER, and a name.
    whose: tuple[str, str]
    #: Why a trial waits for it, where that is no quota's sentence.
    why: Reason | None = None

    def concerns(self, holder: Holder) -> bool:
        kind, pk = self.of
        if kind == "cluster" and holder.several_clusters:
            return pk in holder.on
        return bool(getattr(holder, kind) == pk)

    def used_by(self, holder: Holder) -> int:
        """What the trials under way of this experiment take of it."""
        kind, pk = self.of
        if kind == "token":  # also of experiments that the token has not launched
            return holder.of_tokens.get(pk, 0)
        if not self.concerns(holder):
            return 0
        taken = self.cost(holder) * (holder.at(pk) if kind == "cluster" else holder).under_way
        return taken if self.unit == "trials" else taken + holder.more_gpus

    def cost(self, holder: Holder) -> int:
        """What one trial of this experiment takes of it."""
        return 1 if self.unit == "trials" else holder.gpus_of_a_trial

    def reason(self, holder: Holder) -> Reason:
        """Why a trial waits; the same as long as it waits for the same."""
        if self.why is not None:
            return self.why
        asked, whose = holder.gpus_of_a_trial, whose_document(*self.whose)
        if self.unit != "trials" and asked > self.most:
            return Reason("quota_too_small", whose=whose, most=self.most, asked=asked)
        return Reason("quota", whose=whose, unit=self.unit, most=self.most,
                      asked=0 if self.unit == "trials" else asked)


#: Whether there are quotas, and leashes with a limit.
_ARE_THERE_ANY = (f"SELECT EXISTS (SELECT 1 FROM {Quota._meta.db_table}),"
                  f" EXISTS (SELECT 1 FROM {ApiToken._meta.db_table} WHERE max_trials IS NOT NULL)")


class Limits:
    """All quotas of the installation, all leashes with a limit, and the limit of one cluster."""

    def __init__(self, quotas: Iterable[Quota], cluster: Cluster, leashes: Iterable[ApiToken] = ()) -> None:
        self._of_owner: dict[int, Quota] = {}
        self._of_group: dict[int, Quota] = {}
        self._of_the_rest: Quota | None = None
        for quota in quotas:
            if quota.user_id is not None:
                self._of_owner[quota.user_id] = quota
            elif quota.group_id is not None:
                self._of_group[quota.group_id] = quota
            else:
                self._of_the_rest = quota
        self._of_token = {token.pk: Limit(("token", token.pk), "trials", token.max_trials or 0, ("token", str(token)),
                                          why_full(token)) for token in leashes}
        self._of_cluster = [] if cluster.max_trials is None else [
            Limit(("cluster", cluster.pk), "trials", cluster.max_trials, (CLUSTER, cluster.name))]

    @classmethod
    def now(cls, cluster: Cluster) -> Limits:
        """As the database has them. One query, one more where there are quotas, and one where there are leashes."""
        with connection.cursor() as cursor:  # by hand: each trial asks, and mostly there are none
            cursor.execute(_ARE_THERE_ANY)
            any_quotas, any_leashes = cursor.fetchone()
        return cls(Quota.objects.select_related("user", "group") if any_quotas else (), cluster,
                   ApiToken.objects.filter(max_trials__isnull=False).only("pk", "name", "max_trials")
                   if any_leashes else ())

    def __bool__(self) -> bool:
        return bool(self._of_owner or self._of_group or self._of_the_rest or self._of_cluster or self._of_token)

    def concerning(self, holder: Holder) -> list[Limit]:
        """The limits of this experiment, which is on the cluster."""
        # where a trial of several clusters goes is decided later, and asks each cluster's limit
        found = [] if holder.several_clusters else list(self._of_cluster)
        if holder.owner in self._of_owner:
            quota = self._of_owner[holder.owner]
            found += _limits(quota, ("owner", holder.owner), whose_quota(quota))
        elif self._of_the_rest is not None and holder.owner is not None:
            found += _limits(self._of_the_rest, ("owner", holder.owner), whose_quota(self._of_the_rest))
        if holder.group in self._of_group:
            quota = self._of_group[holder.group]
            found += _limits(quota, ("group", holder.group), whose_quota(quota))
        if holder.token in self._of_token:
            found.append(self._of_token[holder.token])
        return found


def _limits(quota: Quota, of: tuple[str, int], whose: tuple[str, str]) -> list[Limit]:
    units: list[tuple[Unit, int | None]] = [("trials", quota.max_trials), ("gpus", quota.max_gpus)]
    return [Limit(of, unit, most, whose) for unit, most in units if most is not None]


def whose_quota(quota: Quota) -> tuple[str, str]:
    """Kind and name; needs ``user`` and ``group``."""
    if quota.user is not None:
        return PERSON, quota.user.username
    return (GROUP, quota.group.name) if quota.group is not None else (EACH_PERSON, "")


def whose_document(kind: str, name: str) -> dict[str, str]:
    """As it stands in the arguments of a reason."""
    return {"kind": kind, "name": name}
