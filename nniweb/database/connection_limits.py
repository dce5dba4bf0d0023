"""How many connections all processes may open together, and how many PostgreSQL takes.

Each web and worker says its own limit in the name that its connections have at PostgreSQL, so any process can add them
up. Connections are opened when they are needed: too many are noticed on the busiest day, unless somebody adds them up.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, connection

from nniweb.database.outage_logs import first_line

logger = logging.getLogger(__name__)

#: PostgreSQL cuts longer ones.
LONGEST_NAME = 63
_NAME = re.compile(r"nniweb \S+ at most (\d+)")
# whatever is the least: of the server, of the role, of the database; -1 is none
_LIMIT = """
SELECT least(current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true), '0')::integer,
             (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
             (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))"""
_OPEN = """
SELECT application_name, count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY application_name"""


@dataclass(frozen=True)
class ConnectionRoom:
    """``limit``: connections that PostgreSQL takes from us. ``processes``: ours; ``promised``: what they may open
    together; ``others``: what other programs have open.
    """

    limit: int
    processes: int
    promised: int
    others: int

    @property
    def is_enough(self) -> bool:
        return self.promised + self.others <= self.limit

    def __str__(self) -> str:
        others = f"; other programs have {self.others} open" if self.others else ""
        return (f"Webs and workers ({self.processes} processes) may open {self.promised} connections together{others}. "
                f"PostgreSQL takes {self.limit}")


#: What to do where there is not enough room.
REMEDY = ("Set NNIWEB_DATABASE_CONNECTIONS lower, or PostgreSQL's max_connections higher. Where there are not enough "
          "connections, requests and reports wait and fail after 10 seconds.")

_is_announced = False


def announce() -> None:
    """This process is a web or a worker: connections that it opens from now on say its limit."""
    global _is_announced
    _is_announced = True


def own_name() -> str | None:
    """The name for new connections of this process; None where the environment gives one, or it is no web or worker."""
    if not _is_announced or os.environ.get("PGAPPNAME"):
        return None
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool", {})
    ending = f":{os.getpid()} at most {pool.get('max_size', 1)}"
    host = re.sub(r"\s", "", socket.gethostname())
    return f"nniweb {host}"[:LONGEST_NAME - len(ending)] + ending


def room() -> ConnectionRoom | None:
    """As it is now; None on SQLite. Raises DatabaseError."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(_LIMIT)
        [(limit,)] = cursor.fetchall()
        cursor.execute(_OPEN)
        names = dict(cursor.fetchall())
    if (own := own_name()) is not None:
        names.setdefault(own, 0)
    return _added_up(limit, names)


def _added_up(limit: int, names: Mapping[str, int]) -> ConnectionRoom:
    """``names``: of connections, with how many have it."""
    promised, processes, others = 0, 0, 0
    for name, count in names.items():
        if (found := _NAME.fullmatch(name)) is not None:
            processes += 1
            promised += int(found[1])
        else:
            others += count
    return ConnectionRoom(limit, processes, promised, others)


def warn_if_too_few() -> None:
    """One line in the log where all processes together may open more connections than PostgreSQL takes."""
    try:
        found = room()
    except (DatabaseError, RuntimeError) as error:  # RuntimeError: where none may be asked, while tests are collected
        logger.debug("connections could not be added up: %s", first_line(error))
        return
    if found is not None and not found.is_enough:
        logger.warning("%s. %s", found, REMEDY)
