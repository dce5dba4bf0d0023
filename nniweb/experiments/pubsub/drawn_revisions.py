"""Which revisions have been drawn on PostgreSQL, and up to which of them everything is there to be read.

Several processes store metrics and output of one experiment at the same time (``revisions``), so a revision may be
committed after a larger one. Each of them tells, by an advisory lock and before it draws its number, above which
number that will be. So whoever reads the last number that was drawn, then the locks, then, with another statement, the
rows, has all rows up to the smallest number that was told, or else up to the last one.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from django.db import DatabaseError, connection
from django.utils import timezone

from nniweb.experiments.pubsub.revisions import NUMBERS, STORING, TAKEN

logger = logging.getLogger(__name__)

#: Seconds between two changes of an experiment's row by reports.
ROW_SECONDS = 1.0

# the inner question has to do with the outer one, so it is asked when the last number is there; what this very
# transaction stores it sees itself
_DRAWN = ("SELECT drawn.last_value, ARRAY(SELECT ARRAY[pid::bigint, classid::bigint, objid::bigint] FROM pg_locks"
          " WHERE drawn.last_value > 0 AND locktype = 'advisory' AND objsubid = 2"
          f" AND classid::bigint IN ({TAKEN}, {STORING}) AND granted AND pid <> pg_backend_pid()"
          " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
          " FROM experiments_revision AS drawn")
# a row that somebody else changes just now is left to them
_BRING_UP_TO_DATE = (
    "UPDATE experiments_experiment SET revision = new.revision, changed_at = %s FROM"
    " (SELECT found.id, known.revision FROM unnest(%s::bigint[], %s::bigint[]) AS known (id, revision)"
    " JOIN experiments_experiment found ON found.id = known.id WHERE found.revision < known.revision"
    " ORDER BY found.id FOR NO KEY UPDATE OF found SKIP LOCKED) AS new"
    " WHERE experiments_experiment.id = new.id AND experiments_experiment.revision < new.revision")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The last number that was drawn, and a smaller one for each experiment of which reports are being stored."""

    last: int
    limits: Mapping[int, int]

    def limit(self, experiment_pk: int) -> int:
        """All rows of this experiment up to this revision are there."""
        return self.limits.get(experiment_pk % NUMBERS, self.last)


def drawn() -> Drawn:
    """As it is now; one short question to PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute(_DRAWN)
        [(last, locks)] = cursor.fetchall()
    storing = {pid: _whole(number, last) for pid, kind, number in locks if kind == STORING}
    limits: dict[int, int] = {}
    for pid, kind, number in locks:
        if kind == TAKEN and pid in storing:
            limits[number] = min(limits.get(number, last), storing[pid])
    return Drawn(last, limits)


def _whole(number: int, last: int) -> int:
    """The number of which these are the last bits, which is about as large as ``last``."""
    beyond = (number - last) % NUMBERS
    return last + (beyond if beyond < NUMBERS // 2 else beyond - NUMBERS)


@dataclass
class ExperimentsRows:
    """Brings the rows of experiments up to date, about once a second, of which this process has stored reports.

    Lists say by them when something changed last, and charts from which revision on they are to be continued. A row's
    revision is never too large: everything up to it is there. Thread-safe.
    """

    monotonic: Callable[[], float] = time.monotonic
    _guard: threading.Lock = field(default_factory=threading.Lock)
    #: Experiment -> the revision of what was stored and its row does not say.
    _waiting: dict[int, int] = field(default_factory=dict)
    #: Experiment -> monotonic time from which on its row may be changed again.
    _due_at: dict[int, float] = field(default_factory=dict)

    def note(self, revisions: Mapping[int, int]) -> None:
        """Reports with these revisions are being stored. Where they are not stored in the end a number is left out."""
        with self._guard:
            self._waiting.update(revisions)

    def bring_up_to_date(self) -> None:
        """Change the rows of those that are due. One that is not due now is so with a later report, or the next change
        of another kind. Raises nothing: no report fails for it.
        """
        now = self.monotonic()
        with self._guard:
            due = {pk: revision for pk, revision in self._waiting.items() if self._due_at.get(pk, now) <= now}
            if not due:
                return
            self._due_at = {pk: at for pk, at in self._due_at.items() if at > now} | dict.fromkeys(
                due, now + ROW_SECONDS)
            for pk in due:
                del self._waiting[pk]
        try:
            known = drawn()
            _write({pk: min(revision, known.limit(pk)) for pk, revision in due.items()})
        except DatabaseError as error:
            logger.debug("the rows of %d experiments are brought up to date later: %s", len(due), error)
            self._come_back_to(due.items())
            return
        self._come_back_to((pk, revision) for pk, revision in due.items() if known.limit(pk) < revision)

    def _come_back_to(self, those: Iterable[tuple[int, int]]) -> None:
        with self._guard:
            for pk, revision in those:
                self._waiting[pk] = max(revision, self._waiting.get(pk, 0))


def _write(revisions: Mapping[int, int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_BRING_UP_TO_DATE, [timezone.now(), list(revisions), list(revisions.values())])


#: Of this process.
experiments_rows = ExperimentsRows()
