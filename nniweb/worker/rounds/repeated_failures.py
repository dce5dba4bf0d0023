"""Steps of an experiment that fail each time: they are not tried for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from nniweb.database.outage_logs import first_line, takes_nothing
from nniweb.experiments.clusters.lease import LeaseLost
from nniweb.experiments.models import Experiment
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import Reason
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: So often in a row a step may fail, by something else than what the whole server lacks.
MOST_FAILURES = 10


class RepeatedFailures:
    """Counts them. Used by the cluster's round thread alone."""

    def __init__(self, fail: Callable[[Experiment, Reason], None]) -> None:
        """``fail``: the experiment cannot go on."""
        self._fail = fail
        self._failures: dict[Hashable, int] = {}

    def guard(self, experiment: Experiment, step: str, work: Callable[[], None]) -> None:
        """Carry out a step of an experiment; what goes wrong in it harms no other experiment.

        Raises what concerns all of them: LeaseLost, and what the database raises while it takes nothing.
        """
        key = (experiment.pk, step)
        try:
            work()
        except LeaseLost:
            raise
        except Exception as error:
            if takes_nothing(error):
                raise
            self._note(experiment, key, error)
        else:
            self._failures.pop(key, None)

    def _note(self, experiment: Experiment, key: Hashable, error: Exception) -> None:
        if is_shortage(error) or isinstance(error, OSError):
            logger.exception("experiment %s: a round failed; the next one tries again", experiment.public_id)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if failures < MOST_FAILURES:
            logger.exception("experiment %s: a round failed; the next one tries again", experiment.public_id)
            return
        logger.exception("experiment %s: a round failed %d times in a row", experiment.public_id, failures)
        del self._failures[key]
        self._fail(experiment, Reason("rounds_failed", times=failures,
                                      error=printable(f"{type(error).__name__}: {first_line(error)}")))
