"""Between which primary keys the trials of an experiment are: what joins them reads a part of a large table, then."""

from typing import Any

from django.db.models import Count, Max, Min

from nniweb.experiments.models import Experiment, Trial


def trial_ids(experiment: Experiment, **more: Any) -> dict[str, Any]:
    """``first`` and ``last``, None where there is no trial, and what ``more`` aggregates of the trials; one query.

    They are counted, too: for least and greatest alone, PostgreSQL walks along the primary keys of all experiments.
    """
    return Trial.objects.filter(experiment=experiment).aggregate(
        first=Min("pk"), last=Max("pk"), count=Count("pk"), **more)
