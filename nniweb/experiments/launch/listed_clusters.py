"""The list of clusters of an experiment as it is now, in the words of experiment files."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.models import Experiment, ExperimentCluster
from nniweb.experiments.models.experiment_cluster import rows_by_cluster


def clusters_now(experiment: Experiment) -> list[dict[str, Any]]:
    """The entries of ``clusters``, without what is as by default; [] where it runs on its home alone, without limits.
    """
    rows = rows_by_cluster(experiment)
    names = {pk: row.cluster.name for pk, row in rows.items()}
    listed = [_document(row, names) for row in sorted(rows.values(), key=lambda row: (row.position, row.pk))
              if row.is_listed]
    home = {"name": names.get(experiment.cluster_id)}
    return [] if len(listed) == 1 and {"name": listed[0]["name"]} == home and not listed[0].keys() & _LIMITS else listed


#: Fields with which a list of one cluster says something.
_LIMITS = frozenset({"upTo", "weight", "cost", "after", "drained"})


def _document(row: ExperimentCluster, names: dict[int, str]) -> dict[str, Any]:
    document = {"name": names[row.cluster_id], "upTo": row.up_to, "weight": None if row.weight == 1.0 else row.weight,
                "cost": row.cost, "after": [names[pk] for pk in row.after if pk in names] or None,
                "drained": row.is_drained or None, "trialGpuNumber": row.trial_gpu_number,
                "trialOptions": row.trial_options or None}
    return {key: value for key, value in document.items() if value is not None}
