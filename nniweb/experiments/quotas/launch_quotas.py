"""Whether one more experiment of a person or group may go on, and whether its trials may ever have their GPUs."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db.models import Q

from nniweb.experiments.models import Experiment, Quota, User
from nniweb.experiments.quotas.quota_limits import whose_document, whose_quota
from trainingservice.reasons import Reason


def why_no_experiment_more(owner: User | None, group: Group | None) -> str:
    """Why no experiment more of this owner and group may go on, a Reason; "" where one may.

    Ask in the transaction that makes the experiment go on: whoever does the same meanwhile waits for its end.
    """
    for quota, theirs in _quotas_of(owner, group):
        if quota.max_experiments is None:
            continue
        unfinished = Experiment.objects.unfinished().filter(theirs, deleted_at=None).count()
        if unfinished >= quota.max_experiments:
            return Reason("experiment_quota", whose=whose_document(*whose_quota(quota)), most=quota.max_experiments,
                          unfinished=unfinished)
    return ""


def why_not_so_many_gpus(owner: User | None, group: Group | None, gpus_of_a_trial: int) -> str:
    """Why a trial of this owner and group can never have so many GPUs, a Reason; "" where it can."""
    for quota, _ in _quotas_of(owner, group):
        if quota.max_gpus is not None and gpus_of_a_trial > quota.max_gpus:
            return Reason("gpu_quota", whose=whose_document(*whose_quota(quota)), most=quota.max_gpus,
                          asked=gpus_of_a_trial)
    return ""


def why_not_this_priority(owner: User | None, group: Group | None, priority: int) -> str:
    """Why an experiment of this owner and group may not have this priority, a Reason; "" where it may.

    Administrators may have any. Of others the quotas that say something of it count, the lowest where both do, and 0
    where none does.
    """
    if owner is None or owner.is_admin:
        return ""
    said = [quota.max_priority for quota, _ in _quotas_of(owner, group) if quota.max_priority is not None]
    allowed = min(said, default=0)
    return Reason("priority_quota", asked=priority, most=allowed) if priority > allowed else ""


def _quotas_of(owner: User | None, group: Group | None) -> list[tuple[Quota, Q]]:
    """What holds for an experiment of theirs: the quota, and which experiments count."""
    # in the order in which whoever starts trials holds them
    quotas = {(quota.user_id, quota.group_id): quota for quota in Quota.objects.select_for_update().order_by("pk")}
    of_owner = quotas.get((owner.pk, None)) or quotas.get((None, None)) if owner is not None else None
    of_group = quotas.get((None, group.pk)) if group is not None else None
    found = []
    if of_owner is not None:
        found.append((of_owner, Q(owner=owner)))
    if of_group is not None:
        found.append((of_group, Q(group=group)))
    return found
