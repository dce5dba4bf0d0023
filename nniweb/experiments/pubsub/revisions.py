"""Revisions: the order of changes within an experiment.

Time stamps commit out of order and clocks jump. The revision is taken by an UPDATE of the
experiment's row, so that transactions which change the same experiment commit in its order.
"""

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
