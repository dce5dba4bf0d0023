"""The experiments of one cluster, as its rounds see them: all with something to do, or the few that have rung."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nniweb.experiments.models import Cluster, CodeArchive, Experiment, Trial
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS
from nniweb.experiments.sql.selected_rows import places, select
from nniweb.worker.rounds.work_counts import UNFINISHED_TRIALS

#: Columns that rounds have no use for, or seldom.
_LEFT_OUT = ("config_text", "notes", "description", "tags", "code_git_token", "archived", "foreign_id")
_READ = tuple(field.name for field in Experiment._meta.concrete_fields if field.name not in _LEFT_OUT)
# by hand, and with the statuses written out: see ``work_counts_of``
_WITH_SOMETHING_TO_DO = (
    f"WHERE cluster_id = %s AND deleted_at IS NULL"
    f" AND (status IN ({', '.join(repr(status.value) for status in UNFINISHED_EXPERIMENTS)})"
    f" OR EXISTS (SELECT 1 FROM {Trial._meta.db_table} trial"
    f" WHERE trial.experiment_id = {Experiment._meta.db_table}.id AND trial.status IN ({UNFINISHED_TRIALS})))"
    f" ORDER BY id")
_CLUSTER_LEFT_OUT = ("settings", "rehearsal", "message")


class RoundExperiments:
    """For the round's thread only. Keeps what the experiments refer to: their cluster, and archives of code, which
    never change."""

    def __init__(self, cluster_pk: int) -> None:
        self._cluster_pk = cluster_pk
        self._cluster: Cluster | None = None
        self._code: dict[int, CodeArchive] = {}

    def with_something_to_do(self) -> list[Experiment]:
        """All of them that are not finished or have unfinished trials. Three queries, the cluster's anew."""
        found = select(Experiment, _READ, _WITH_SOMETHING_TO_DO, [self._cluster_pk])
        self._cluster = None
        used = {experiment.code_id for experiment in found}
        self._code = {pk: code for pk, code in self._code.items() if pk in used}
        return self._completed(found)

    def of(self, keys: Collection[int]) -> list[Experiment]:
        """Those of these (primary keys) that have something to do."""
        if not keys:
            return []
        # by hand, and a condition less: a round for the few that rang comes for each trial
        found = select(Experiment, _READ, f"WHERE cluster_id = %s AND deleted_at IS NULL"
                       f" AND id IN {places(keys)} ORDER BY id", [self._cluster_pk, *keys])
        return self._completed(
            experiment for experiment in found
            if not experiment.is_finished or Trial.objects.unfinished().filter(experiment=experiment).exists())

    def _completed(self, experiments: Iterable[Experiment]) -> list[Experiment]:
        found = list(experiments)
        if self._cluster is None and found:
            self._cluster = Cluster.objects.defer(*_CLUSTER_LEFT_OUT).get(pk=self._cluster_pk)
        if missing := {one.code_id for one in found if one.code_id is not None} - self._code.keys():
            self._code |= CodeArchive.objects.in_bulk(missing)
        for experiment in found:
            assert self._cluster is not None
            experiment.cluster = self._cluster
            experiment.code = self._code.get(experiment.code_id) if experiment.code_id is not None else None
        return found
