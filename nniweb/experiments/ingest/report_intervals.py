"""In how many seconds a keeper shall report again though it has nothing to say.

A keeper sends what is new at once, or gathers it for some seconds (``report_gathering``). What it sends besides says
that it lives, and brings orders. The more keepers there are the less often each of them does it, so that all of them
together cost the same. An order to stop does not wait for it: the platform's service brings it.

What is promised to a keeper is kept with its attempt (``report_within``), and whoever decides that a keeper is silent
asks ``lifecycle.heartbeats``.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from nniweb.experiments.ingest.report_gathering import gathering
from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.lifecycle.heartbeats import LONGEST, SHORTEST
from nniweb.experiments.models import Attempt, Experiment, Trial
from nniweb.experiments.models.trial import TrialTarget

logger = logging.getLogger(__name__)

#: So many reports a second all of them send together; those that somebody watches may send so many more.
TOGETHER, WATCHED_TOGETHER = 500.0, 250.0
#: Intervals above the shortest are shortened at random by up to this part: keepers that have all come back at once
#: after a restart of the server do not stay together.
SPREAD = 0.2
#: Seconds until running trials are counted again; and so many times as long as counting took.
COUNT_AGAIN_AFTER, COUNT_SHARE = 15.0, 200.0
#: Seconds for which a page that is open counts, from its last word; and after which it says so again.
WATCHED_FOR, WATCHED_AGAIN = 60.0, 20.0


@dataclass(frozen=True)
class Fleet:
    """How many keepers report here, and how many of them are of trials that somebody watches."""

    running: int = 0
    watched: int = 0

    @property
    def quiet(self) -> float:
        """Seconds between two reports of a keeper that has nothing to say."""
        return min(max(self.running / TOGETHER, SHORTEST), LONGEST)

    @property
    def of_watched(self) -> float:
        """The same where somebody watches."""
        return min(max(self.watched / WATCHED_TOGETHER, SHORTEST), self.quiet)


class Intervals:
    """The fleet as this process counted it last. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic,
                 chance: Callable[[], float] = random.random) -> None:
        self._monotonic, self._chance = monotonic, chance
        self._lock = threading.Lock()
        self._due_at = float("-inf")
        self.fleet = Fleet()

    def count_if_due(self) -> None:
        """Count running trials where that is due; a database that does not answer leaves it at the last count.

        Not within a transaction. Reports that come before the first count are answered as in a small installation.
        """
        with self._lock:
            began = self._monotonic()
            if began < self._due_at:
                return
            self._due_at = began + COUNT_AGAIN_AFTER
        try:
            fleet = counted()
        except DatabaseError as error:
            logger.debug("running trials could not be counted: %s", error)
            return
        with self._lock:
            now = self._monotonic()
            self._due_at = now + max(COUNT_AGAIN_AFTER, COUNT_SHARE * (now - began))
            self.fleet = fleet

    def next_report_within(self, attempt: ReportingAttempt, *, has_news: bool) -> float:
        """Seconds. ``has_news``: the report brings entries.

        The shortest for a trial that has just reported, that begins or ends, and for one in a warm place: there the
        answer to a report is the only way of an order to stop.
        """
        fleet = self.fleet
        if (has_news or attempt.target != TrialTarget.RUN or attempt.stage == Attempt.Stage.ENDED
                or not attempt.has_started or attempt.is_in_place):
            return SHORTEST
        seconds = fleet.of_watched if attempt.is_watched else fleet.quiet
        return max(SHORTEST, round(seconds * (1.0 - SPREAD * self._chance()), 1))


def counted() -> Fleet:
    """Counted in the database: all webs of an installation say the same, also after a restart."""
    reporting = Attempt.objects.under_way().exclude(journal_id="")
    running = reporting.count()
    if running <= SHORTEST * TOGETHER:
        return Fleet(running)  # who watches makes no difference
    now = timezone.now()
    return Fleet(running, reporting.filter(
        Q(trial__watched_until__gt=now) | Q(trial__experiment__watched_until__gt=now)).count())


def note_watched(experiments: Collection[int], trials: Collection[int]) -> None:
    """Pages of these experiments and of these trials (primary keys) are open; to be said again while they are."""
    intervals.count_if_due()
    if intervals.fleet.quiet <= SHORTEST and not gathering.seconds:
        return  # nobody needs to know
    until = timezone.now() + timedelta(seconds=WATCHED_FOR)
    if experiments:
        Experiment.objects.filter(pk__in=experiments).update(watched_until=until)
    if trials:
        Trial.objects.filter(pk__in=trials).update(watched_until=until)


#: Of this process.
intervals = Intervals()
