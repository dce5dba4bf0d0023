"""Several processes may be started at once: one changes the database, the others wait until it has."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from nniweb.storage.data_folder import prepare

#: PostgreSQL's advisory locks are numbers; this one is ours in its database.
_NUMBER = 4_711_002_026
#: How often who waits for PostgreSQL's lock asks for it.
LOOK_SECONDS = 0.5
_WAITING = "Another process is upgrading the database. Waiting for it."


@contextmanager
def one_at_a_time(say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of this database, which goes with its process. Says so where that takes waiting."""
    with _of_postgresql(say) if connection.vendor == "postgresql" else _of_data_folder(say):
        yield


@contextmanager
def _of_data_folder(say: Callable[[str], None]) -> Iterator[None]:
    path = prepare(Path(settings.DATA_FOLDER)) / "upgrade.lock"
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(_WAITING)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _of_postgresql(say: Callable[[str], None]) -> Iterator[None]:
    has_said = False
    with connection.cursor() as cursor:
        # asked again and again: the building of an index waits for all statements that go on, also for one that waits
        while not _takes_lock(cursor):
            if not has_said:
                say(_WAITING)
                has_said = True
            time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_NUMBER])


def _takes_lock(cursor: Any) -> bool:
    cursor.execute("SELECT pg_try_advisory_lock(%s)", [_NUMBER])
    return bool(cursor.fetchone()[0])
