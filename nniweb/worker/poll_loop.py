"""The loop of a thread that looks at the database again and again, and survives whatever a look runs into."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import DatabaseError, connection

from nniweb.database.outage_logs import first_line
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back

logger = logging.getLogger(__name__)

#: How often is looked, in seconds, where a look says nothing else; the pause where the database gives nothing.
LOOK_SECONDS, AWAY_SECONDS = 1.0, 5.0


def look_until(stopping: threading.Event, what: str, look: Callable[[], float]) -> None:
    """Call ``look`` until ``stopping`` is set; it returns the seconds to the next time. For the thread that looks.

    ``what``: who looks, for the log.
    """
    try:
        while not stopping.is_set():
            try:
                pause = look()
                give_connection_back()
            except DatabaseError as error:
                logger.warning("%s: postponed; the database's error: %s", what, first_line(error))
                drop_connection()
                pause = AWAY_SECONDS
            except Exception:
                logger.exception("%s: a poll failed; the next one tries again", what)
                pause = AWAY_SECONDS
            stopping.wait(pause)
    finally:
        connection.close()
