"""SQLite with a queue for writers.

SQLite has one writer at a time and no queue: whoever finds the database locked sleeps and tries
again, up to seconds behind a busy writer. All transactions of this backend begin IMMEDIATE, so
one lock per process around them gives each writer its turn within the time the others really need.
Other processes are still waited for by SQLite's own busy timeout.
"""

import sqlite3
from contextlib import closing
from functools import cached_property, lru_cache
from typing import Any

from django.db.backends.sqlite3 import base, features

from nniweb.database.sqlite.turnstile import Turnstile

_turnstiles: dict[str, Turnstile] = {}


class Cursor(base.SQLiteCursorWrapper):
    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        return _converted(query) if param_names is None else super().convert_query(query, param_names=param_names)


@lru_cache(maxsize=1000)
def _converted(query: str) -> str:
    """With the marks of SQLite for parameters. Kept: it took as long as what is done with it on the paths of trials."""
    return str(base.SQLiteCursorWrapper.convert_query(None, query))  # type: ignore[arg-type]  # without a state


class Features(features.DatabaseFeatures):
    @cached_property
    def supports_json_field(self) -> bool:  # type: ignore[override]
        """Asked of a database in memory. Django asks the one in use, in a transaction: while another process writes it
        for longer than the timeout, such as an upgrade, Django says that SQLite has no JSON, and nothing starts.
        """
        with closing(sqlite3.connect(":memory:")) as memory:
            try:
                memory.execute("SELECT JSON('{}')")
            except sqlite3.OperationalError:
                return False
        return True


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = Features

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inside = False

    def create_cursor(self, name: str | None = None) -> Cursor:
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        return cursor

    def _turnstile(self) -> Turnstile:
        return _turnstiles.setdefault(str(self.settings_dict["NAME"]), Turnstile())

    def _start_transaction_under_autocommit(self) -> None:
        self._turnstile().acquire()
        self._inside = True
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # private, stable since Django 1.6
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            self._turnstile().release()

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self._leave()  # not in a finally: after a failed commit Django rolls back, and leaves there

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._leave()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._leave()
