"""Whether a quota has room for more of an experiment's checkpoints."""

from __future__ import annotations

from django.db.models import Q, Sum

from nniweb.experiments.models import CheckpointChunk, Experiment, Quota
from nniweb.experiments.quotas.quota_limits import whose_document, whose_quota
from nniweb.experiments.sql.selected_rows import is_any
from trainingservice.reasons import Reason


def why_no_checkpoints_more(experiment: Experiment, size: int) -> str:
    """Why so many bytes more cannot be kept, a Reason; "" where they can. One question where no quota limits it."""
    if not is_any(Quota, "max_checkpoint_gb IS NOT NULL", []):
        return ""
    quotas = {(quota.user_id, quota.group_id): quota for quota in Quota.objects.select_related("user", "group")}
    of_owner = quotas.get((experiment.owner_id, None)) or quotas.get((None, None)) if experiment.owner_id else None
    of_group = quotas.get((None, experiment.group_id)) if experiment.group_id else None
    for quota, theirs in ((of_owner, Q(experiment__owner=experiment.owner_id)),
                          (of_group, Q(experiment__group=experiment.group_id))):
        if quota is None or quota.max_checkpoint_gb is None:
            continue
        kept = CheckpointChunk.objects.filter(theirs).aggregate(size=Sum("size"))["size"] or 0
        if kept + size > quota.max_checkpoint_gb * 2**30:
            return Reason("checkpoint_quota", whose=whose_document(*whose_quota(quota)), most=quota.max_checkpoint_gb)
    return ""
