"""Quotas as administrators set them."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction

from nniweb.experiments.access import audit
from nniweb.experiments.access.held_row import hold
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Quota


def set_quota(quota: Quota, fields: Mapping[str, Any]) -> Quota:
    """Make or change one (``user``, ``group``, ``max_trials``, ``max_gpus``, ``max_experiments``,
    ``max_checkpoint_gb``, ``max_priority``). Raises Refused.

    What runs goes on; a lower limit keeps new trials waiting.
    """
    is_new = quota.pk is None
    with transaction.atomic():
        if not is_new:
            hold(quota)
        for name, value in fields.items():
            setattr(quota, name, value)
        try:
            quota.full_clean()
        except ValidationError as error:
            raise Refused.for_fields([("" if field == NON_FIELD_ERRORS else field, " ".join(said))
                                      for field, said in error.message_dict.items()]) from None
        quota.save()
        audit.record("quota.create" if is_new else "quota.change", quota, of=quota.of_whom, trials=quota.max_trials,
                     gpus=quota.max_gpus, experiments=quota.max_experiments, checkpoint_gb=quota.max_checkpoint_gb,
                     priority=quota.max_priority)
    return quota


def delete_quota(quota: Quota) -> None:
    """Without it there is no limit, or that for everybody else."""
    with transaction.atomic():
        audit.record("quota.delete", quota, of=quota.of_whom)
        quota.delete()
