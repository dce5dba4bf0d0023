"""What a round finds to do in each experiment, as numbers: a step that has nothing to do costs no query of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection

from nniweb.experiments.models import Attempt, Trial
from nniweb.experiments.models.trial import RESTS, TrialTarget
from nniweb.experiments.sql.selected_rows import places
from trainingservice.trial_job_status import UNFINISHED

#: Experiments asked about in one statement.
CHUNK = 500
#: For SQL. Written out, not as parameters: with those SQLite would not use the indexes of what is unfinished.
UNFINISHED_TRIALS = ", ".join(f"'{status.value}'" for status in sorted(UNFINISHED))
_RESTS = ", ".join(f"'{target.value}'" for target in sorted(RESTS))
_TRIALS, _ATTEMPTS = Trial._meta.db_table, Attempt._meta.db_table


@dataclass(frozen=True)
class WorkCounts:
    """Of one experiment, as a round begins with it."""

    #: Trials that were given to a platform or are about to be: slots in use.
    under_way: int = 0
    #: ... that are about to be, on the round's cluster.
    submitting: int = 0
    #: Unfinished trials that are wanted running and that no attempt is under way for.
    waiting: int = 0
    #: Unfinished trials that are wanted stopped, or frozen and are not yet.
    unwanted: int = 0
    #: Unfinished trials that wait for room after they were frozen for an experiment of higher priority.
    preempted: int = 0
    #: Trials about which somebody wants the platform asked now.
    to_refresh: int = 0
    #: Ended trials that the tuner was not told of.
    not_taught: int = 0


def work_counts_of(experiments: Collection[int], cluster_pk: int) -> dict[int, WorkCounts]:
    """Of these experiments (primary keys), each of them. Two queries for 500, as long as what is unfinished.

    What is submitted, stopped and refreshed is counted of attempts on this cluster alone.

    What frees a slot is not counted before it counts as not taught: the tuner is told of an end before it is asked
    what shall follow.
    """
    found = {}
    keys = list(experiments)
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start: start + CHUNK]
        these = places(chunk)
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT trial.experiment_id, COUNT(attempt.id),"
                f" SUM(CASE WHEN attempt.stage = 'submitting' AND attempt.cluster_id = %s THEN 1 ELSE 0 END),"
                f" SUM(CASE WHEN attempt.id IS NULL AND trial.target = '{TrialTarget.RUN}' THEN 1 ELSE 0 END),"
                f" SUM(CASE WHEN trial.target = '{TrialTarget.RUN}' OR attempt.id IS NULL AND trial.target IN"
                f" ({_RESTS}) OR attempt.cluster_id <> %s AND attempt.token_hashes <> '[]' THEN 0 ELSE 1 END),"
                f" SUM(CASE WHEN attempt.id IS NULL AND trial.target = '{TrialTarget.PREEMPTED}' THEN 1 ELSE 0 END),"
                f" SUM(CASE WHEN attempt.cluster_id = %s AND attempt.refresh_asked_at IS NOT NULL"
                f" THEN 1 ELSE 0 END)"
                f" FROM {_TRIALS} trial LEFT JOIN {_ATTEMPTS} attempt ON attempt.trial_id = trial.id"
                f" AND attempt.stage IN ('submitting', 'submitted')"
                f" WHERE trial.experiment_id IN {these} AND trial.status IN ({UNFINISHED_TRIALS})"
                f" GROUP BY trial.experiment_id", [cluster_pk, cluster_pk, cluster_pk, *chunk])
            unfinished = {row[0]: row for row in cursor.fetchall()}
            cursor.execute(
                f"SELECT experiment_id, COUNT(*) FROM {_TRIALS} WHERE experiment_id IN {these} AND NOT taught"
                f" AND status NOT IN ({UNFINISHED_TRIALS}) GROUP BY experiment_id", chunk)
            not_taught = dict(cursor.fetchall())
        for pk in chunk:
            _, under_way, submitting, waiting, unwanted, preempted, to_refresh = unfinished.get(
                pk, (pk, 0, 0, 0, 0, 0, 0))
            found[pk] = WorkCounts(under_way, submitting, waiting, unwanted, preempted, to_refresh,
                                   not_taught.get(pk, 0))
    return found
