"""When the keeper of a running trial was heard last, for its page."""

from datetime import datetime
from typing import Any

from nniweb.experiments.lifecycle.heartbeats import SHORTEST
from nniweb.experiments.models import Attempt


def last_heard(trial_pk: int, now: datetime) -> dict[str, Any] | None:
    """``ago``: seconds since its last report, by this machine's clock; ``within``: seconds after that report in which
    the next one is expected. None where no keeper runs it now, or none has reported yet.
    """
    found = Attempt.objects.under_way().filter(trial=trial_pk, heard_at__isnull=False).order_by("-number").values_list(
        "heard_at", "report_within").first()
    heard_at, within = found or (None, None)
    if heard_at is None:
        return None
    return {"ago": max(0.0, (now - heard_at).total_seconds()), "within": within or SHORTEST}
