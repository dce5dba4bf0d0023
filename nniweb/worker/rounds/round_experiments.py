"""The experiments of one cluster, as its rounds see them: all with something to do, or the few that have rung.

Those whose home it is, and those of other homes that have trials there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nniweb.experiments.models import Attempt, Cluster, CodeArchive, Experiment, ExperimentCluster, Trial
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS
from nniweb.experiments.models.experiment_cluster import keep_rows
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.worker.rounds.work_counts import UNFINISHED_TRIALS

#: Columns that rounds have no use for, or seldom.
_LEFT_OUT = ("config_text", "notes", "description", "tags", "code_git_token", "archived", "foreign_id")
_READ = tuple(field.name for field in Experiment._meta.concrete_fields if field.name not in _LEFT_OUT)
_EXPERIMENT, _TRIAL, _ATTEMPT = Experiment._meta.db_table, Trial._meta.db_table, Attempt._meta.db_table
#: Of the home's round what is unfinished or has unfinished trials; of others' what has attempts under way there.
#: By hand, and with the statuses written out: see ``work_counts_of``.
_WITH_ATTEMPTS_HERE = (
    f"SELECT trial.experiment_id FROM {_ATTEMPT} attempt JOIN {_TRIAL} trial ON trial.id = attempt.trial_id"
    f" WHERE attempt.cluster_id = %s AND attempt.stage IN ('submitting', 'submitted')")
_WITH_SOMETHING_TO_DO = (
    f"WHERE deleted_at IS NULL AND id IN (SELECT id FROM {_EXPERIMENT} here WHERE here.cluster_id = %s"
    f" AND here.deleted_at IS NULL"
    f" AND (here.status IN ({', '.join(repr(status.value) for status in UNFINISHED_EXPERIMENTS)})"
    f" OR EXISTS (SELECT 1 FROM {_TRIAL} trial"
    f" WHERE trial.experiment_id = here.id AND trial.status IN ({UNFINISHED_TRIALS})))"
    f" UNION {_WITH_ATTEMPTS_HERE}) ORDER BY id")
_CLUSTER_LEFT_OUT = ("settings", "rehearsal", "message")
_CLUSTER = tuple(field.name for field in Cluster._meta.concrete_fields if field.name not in _CLUSTER_LEFT_OUT)


class RoundExperiments:
    """For the round's thread only. Keeps what the experiments refer to: their cluster, and archives of code, which
    never change."""

    def __init__(self, cluster_pk: int) -> None:
        self._cluster_pk = cluster_pk
        self._cluster: Cluster | None = None
        self._code: dict[int, CodeArchive] = {}

    def with_something_to_do(self) -> list[Experiment]:
        """All of them that are not finished or have unfinished trials. Three queries, the cluster's anew."""
        found = select(Experiment, _READ, _WITH_SOMETHING_TO_DO, [self._cluster_pk, self._cluster_pk])
        self._cluster = None
        used = {experiment.code_id for experiment in found}
        self._code = {pk: code for pk, code in self._code.items() if pk in used}
        return self._completed(found)

    def of(self, keys: Collection[int]) -> list[Experiment]:
        """Those of these (primary keys) that have something to do."""
        if not keys:
            return []
        # by hand, and a condition less: a round for the few that rang comes for each trial
        found = select(Experiment, _READ, f"WHERE deleted_at IS NULL AND id IN {places(keys)} AND (cluster_id = %s"
                       f" OR several_clusters AND id IN ({_WITH_ATTEMPTS_HERE})) ORDER BY id",
                       [*keys, self._cluster_pk, self._cluster_pk])
        return self._completed(
            experiment for experiment in found
            if not experiment.is_finished or Trial.objects.unfinished().filter(experiment=experiment).exists())

    def _completed(self, experiments: Iterable[Experiment]) -> list[Experiment]:
        found = list(experiments)
        if self._cluster is None and found:
            [self._cluster] = select(Cluster, _CLUSTER, "WHERE id = %s", [self._cluster_pk])  # by hand: in each round
        if missing := {one.code_id for one in found if one.code_id is not None} - self._code.keys():
            self._code |= CodeArchive.objects.in_bulk(missing)
        guests = {one.cluster_id for one in found} - {self._cluster_pk}
        homes = Cluster.objects.defer(*_CLUSTER_LEFT_OUT).in_bulk(guests) if guests else {}
        self._read_clusters([one for one in found if one.several_clusters])
        for experiment in found:
            assert self._cluster is not None
            experiment.cluster = homes.get(experiment.cluster_id, self._cluster)
            experiment.code = self._code.get(experiment.code_id) if experiment.code_id is not None else None
        return found

    @staticmethod
    def _read_clusters(experiments: Collection[Experiment]) -> None:
        """Have the clusters of these at hand, which run on several. One query for all of them."""
        if not experiments:
            return
        rows: dict[int, dict[int, ExperimentCluster]] = {experiment.pk: {} for experiment in experiments}
        for row in ExperimentCluster.objects.filter(experiment__in=rows).select_related("cluster"):
            rows[row.experiment_id][row.cluster_id] = row
        for experiment in experiments:
            keep_rows(experiment, rows[experiment.pk])
