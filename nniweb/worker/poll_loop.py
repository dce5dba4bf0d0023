"""The loop of a thread that looks at the database again and again, and survives whatever a look runs into."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import DatabaseError, connection

from nniweb.database.outage_logs import first_line, takes_nothing
from nniweb.experiments.sql.idle_connections import drop_connection, give_connection_back
from trainingservice.lasting_thread import Part, in_short

logger = logging.getLogger(__name__)

#: How often is looked, in seconds, where a look says nothing else; the pause where the database gives nothing.
LOOK_SECONDS, AWAY_SECONDS = 1.0, 5.0


def look_until(stopping: threading.Event, what: str, look: Callable[[], float], part: Part | None = None) -> None:
    """Call ``look`` until ``stopping`` is set; it returns the seconds to the next time. For the thread that looks.

    ``what``: who looks, for the log. ``part``: is told where looks fail by a defect, until one does not. That the
    database takes nothing is said elsewhere.
    """

    def tell(error: Exception) -> None:
        if part is not None:
            part.is_in_trouble(f"The part \"{what}\" of the server failed ({in_short(error)}) and is tried again. The "
                               "log has details.")

    try:
        while not stopping.is_set():
            try:
                pause = look()
                give_connection_back()
                if part is not None:
                    part.is_well()
            except DatabaseError as error:
                logger.warning("%s: postponed; the database's error: %s", what, first_line(error))
                drop_connection()
                if not takes_nothing(error):
                    tell(error)
                pause = AWAY_SECONDS
            except Exception as error:
                logger.exception("%s: a poll failed; the next one tries again", what)
                tell(error)
                pause = AWAY_SECONDS
            stopping.wait(pause)
    finally:
        connection.close()
