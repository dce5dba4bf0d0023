"""The list of clusters of an experiment as it is now, in the words of experiment files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nniweb.experiments.models import Experiment, ExperimentCluster
from nniweb.experiments.models.experiment_cluster import rows_by_cluster


def clusters_now(experiment: Experiment) -> list[dict[str, Any]]:
    """The entries of ``clusters``, without what is as by default; [] where it runs on its home alone, as it would
    without a list.
    """
    rows = rows_by_cluster(experiment)
    names = {pk: row.cluster.name for pk, row in rows.items()}
    listed = [_document(row, names) for row in sorted(rows.values(), key=lambda row: (row.position, row.pk))
              if row.is_listed]
    return [] if rows and is_home_alone(experiment, listed, names.get(experiment.cluster_id)) else listed


def is_home_alone(experiment: Experiment, entries: Sequence[Mapping[str, Any]], home: str | None) -> bool:
    """Whether these entries say no more than an experiment without a list: its home, with its own options."""
    if len(entries) != 1 or entries[0]["name"] != home or entries[0].keys() & _LIMITS:
        return False
    [entry] = entries
    return (entry.get("trialOptions") or {}) == (experiment.trial_options or {}) \
        and entry.get("trialGpuNumber") == experiment.trial_gpu_number


#: Fields with which a list of one cluster says something.
_LIMITS = frozenset({"upTo", "weight", "cost", "after", "drained"})


def _document(row: ExperimentCluster, names: dict[int, str]) -> dict[str, Any]:
    document = {"name": names[row.cluster_id], "upTo": row.up_to, "weight": None if row.weight == 1.0 else row.weight,
                "cost": row.cost, "after": [names[pk] for pk in row.after if pk in names] or None,
                "drained": row.is_drained or None, "trialGpuNumber": row.trial_gpu_number,
                "trialOptions": row.trial_options or None}
    return {key: value for key, value in document.items() if value is not None}
