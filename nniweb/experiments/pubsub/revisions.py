"""Revisions: the order of changes within an experiment.

Time stamps commit out of order and clocks jump. The revision is taken by an UPDATE of the
experiment's row, so that transactions which change the same experiment commit in its order.
"""

from collections.abc import Collection

from django.db import connection
from django.utils import timezone

from nniweb.experiments.pubsub import doorbell


def next_revision(experiment_pk: int, *, needs_round: bool = True) -> int:
    """Take the next revision, inside the transaction of the change; the bell rings when it commits.

    ``needs_round`` False: nothing follows from the change that a worker would have to do. Returns 0 where the
    experiment is gone.
    """
    with connection.cursor() as cursor:
        cursor.execute("UPDATE experiments_experiment SET revision = revision + 1, changed_at = %s WHERE id = %s"
                       " RETURNING revision",
                       [connection.ops.adapt_datetimefield_value(timezone.now()), experiment_pk])
        row = cursor.fetchone()
    doorbell.ring_on_commit(experiment_pk, needs_round=needs_round)
    return row[0] if row else 0


def next_revisions(experiment_pks: Collection[int]) -> dict[int, int]:
    """The next revision of each of several experiments, for which a worker has nothing to do; see ``next_revision``.

    One statement, which locks their rows in the order of their keys: two processes never wait for each other in a
    circle. Experiments that are gone are not in the answer.
    """
    if not experiment_pks:
        return {}
    wanted = f"({', '.join(['%s'] * len(experiment_pks))})"
    if connection.vendor == "postgresql":
        wanted = f"(SELECT id FROM experiments_experiment WHERE id IN {wanted} ORDER BY id FOR UPDATE)"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE experiments_experiment SET revision = revision + 1, changed_at = %s"
                       f" WHERE id IN {wanted} RETURNING id, revision",
                       [connection.ops.adapt_datetimefield_value(timezone.now()), *experiment_pks])
        revisions = dict(cursor.fetchall())
    for pk in revisions:
        doorbell.ring_on_commit(pk, needs_round=False)
    return revisions
