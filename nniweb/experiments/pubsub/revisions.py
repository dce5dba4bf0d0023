"""Revisions: the order of changes within an experiment.

Time stamps commit out of order and clocks jump. Whoever changes something of an experiment takes its next revision, and
with it the experiment, until the end of the transaction: nobody else changes it meanwhile. The experiment's row then
says the revision.

On PostgreSQL, reports that bring nothing but metrics and output take the experiment together with others like them
(``take_for_reports``): several processes store them at the same time, and none of them changes the experiment's row.
Their revisions may be committed in another order than they were drawn: see ``drawn_revisions``. An experiment is taken
by an advisory lock, which PostgreSQL gives in the order of asking. SQLite has one writer at a time.
"""

from collections.abc import Collection
from typing import Any

from django.db import connection
from django.utils import timezone

from nniweb.experiments.pubsub import doorbell

#: First numbers of the advisory locks: that an experiment is taken (second number: its key), and that somebody stores
#: reports with a revision above the second number (the last 31 bits of it).
TAKEN, STORING = 7_241_001, 7_241_002
#: Second numbers are kept below this.
NUMBERS = 2**31

_TAKE_ROW = ("UPDATE experiments_experiment SET revision = revision + 1, changed_at = %s WHERE id = %s"
             " RETURNING revision")
# what is in FROM is there before what is set is worked out: the number is drawn when nobody else has the experiment
_TAKE_ALONE = ("UPDATE experiments_experiment SET revision = GREATEST(revision + 1, nextval('experiments_revision')),"
               f" changed_at = %s FROM (SELECT pg_advisory_xact_lock({TAKEN}, %s) OFFSET 0) AS taken WHERE id = %s"
               " RETURNING revision")
# in the order of the arrays; the aggregate is there when all are taken, and only then the number is drawn
_TAKE_TOGETHER = (
    "SELECT nextval('experiments_revision') FROM (SELECT count(CASE WHEN is_alone THEN"
    " pg_advisory_xact_lock(kind, number)::text ELSE pg_advisory_xact_lock_shared(kind, number)::text END) AS count"
    f" FROM (SELECT {STORING} AS kind,"
    f" (SELECT ((last_value - 1) & {NUMBERS - 1})::integer FROM experiments_revision) AS number, false AS is_alone"
    f" UNION ALL SELECT {TAKEN}, number, is_alone"
    " FROM unnest(%s::integer[], %s::boolean[]) AS wanted (number, is_alone)) AS locks) AS taken WHERE count >= 0")


def next_revision(experiment_pk: int, *, needs_round: bool = True) -> int:
    """Take the next revision, inside the transaction of the change; the bell rings when it commits.

    ``needs_round`` False: nothing follows from the change that a worker would have to do. Returns 0 where the
    experiment is gone.
    """
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_TAKE_ALONE, [now, experiment_pk % NUMBERS, experiment_pk])
        else:
            cursor.execute(_TAKE_ROW, [now, experiment_pk])
        row = cursor.fetchone()
    doorbell.ring_on_commit(experiment_pk, needs_round=needs_round)
    return row[0] if row else 0


def take_for_reports(alone: Collection[int], together: Collection[int]) -> dict[int, int]:
    """The next revision of each of several experiments, for which a worker has nothing to do; see ``next_revision``.

    ``alone``: whose trials begin, end, or change otherwise than by metrics and output. ``together``: of the others.
    Taken in the order of their keys: two processes never wait for each other in a circle. Experiments that are gone may
    be in the answer.
    """
    wanted = sorted({*alone, *together})
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        revisions = _together(cursor, wanted, frozenset(alone)) if connection.vendor == "postgresql" \
            else _rows(cursor, wanted)
    for pk in revisions:
        doorbell.ring_on_commit(pk, needs_round=False)
    return revisions


def _rows(cursor: Any, wanted: list[int]) -> dict[int, int]:
    cursor.execute("UPDATE experiments_experiment SET revision = revision + 1, changed_at = %s"
                   f" WHERE id IN ({', '.join(['%s'] * len(wanted))}) RETURNING id, revision",
                   [connection.ops.adapt_datetimefield_value(timezone.now()), *wanted])
    return dict(cursor.fetchall())


def _together(cursor: Any, wanted: list[int], alone: frozenset[int]) -> dict[int, int]:
    """One number for all of them: it is above whatever was committed of any of them."""
    cursor.execute(_TAKE_TOGETHER, [[pk % NUMBERS for pk in wanted], [pk in alone for pk in wanted]])
    [(revision,)] = cursor.fetchall()
    if alone:
        cursor.execute("UPDATE experiments_experiment SET revision = %s, changed_at = %s WHERE id = ANY(%s)",
                       [revision, connection.ops.adapt_datetimefield_value(timezone.now()), sorted(alone)])
    return dict.fromkeys(wanted, revision)
