"""PostgreSQL that says nothing: a host or process that is frozen takes what is sent and never answers.

No setting of PostgreSQL's and no keepalive notices that: the server's own timeouts are frozen with it, and its kernel
goes on acknowledging. A statement that takes long looks the same, so another connection is opened: where not even that
is answered, the statement fails with an OperationalError, as if the connection had been lost.
"""

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg import errors, waiting
from psycopg.conninfo import make_conninfo

from nniweb.database.connection_limits import own_name

#: Seconds that a statement may take before it is asked whether the server answers at all, and while it is known not to.
PATIENCE, PATIENCE_IN_SILENCE = 3.0, 0.5
#: Seconds in which a new connection must be answered.
ANSWER_SECONDS = 5
#: Seconds for which an answer counts for all threads.
HEARD_SECONDS = 3.0


class Silence:
    """Whether the server is silent, found out by one thread for all, until something of it is heard. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard_until = float("-inf")
        #: Whether it was asked and did not answer.
        self.is_known = False

    @property
    def patience(self) -> float:
        """Seconds that a statement may take before ``is_silent`` is to be asked."""
        return PATIENCE_IN_SILENCE if self.is_known else PATIENCE

    def is_silent(self, answers: Callable[[], bool]) -> bool:
        """``answers``: asks the server; blocking. Called only where nobody has asked a moment ago."""
        with self._lock:
            if self.is_known:
                return True
            if self._clock() >= self._heard_until:
                self.is_known = not answers()
                self._heard_until = self._clock() + HEARD_SECONDS
            return self.is_known

    def heard(self) -> None:
        """The server has answered something."""
        self.is_known = False


_silence = Silence()


class AnsweredConnection(psycopg.Connection[Any]):
    """psycopg's connection, whose statements fail where the server has become silent. It ends where the server refuses
    to write: from a pool it would come again and again.
    """

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Any:
        if (name := own_name()) is not None:
            kwargs.setdefault("application_name", name)
        made = super().connect(*args, **kwargs)
        _silence.heard()
        return made

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        waited = gen
        while True:
            try:
                answer = super().wait(waited, interval, _silence.patience)
                if _silence.is_known:
                    _silence.heard()
                return answer
            except errors.ReadOnlySqlTransaction:
                self.pgconn.finish()  # after a fail-over a new connection leads to the server that writes
                raise
            except errors._WaitTimeout:
                if not _silence.is_silent(self._server_answers):
                    waited = _goes_on(gen)
                    continue
                self.pgconn.finish()
                raise psycopg.OperationalError(
                    f"the database server does not answer: no new connection within {ANSWER_SECONDS} s") from None

    def _server_answers(self) -> bool:
        """Whether a new connection is answered, if only by a refusal."""
        info = self.info
        try:
            psycopg.connect(make_conninfo(info.dsn, password=info.password or None,
                                          connect_timeout=ANSWER_SECONDS)).close()
        except errors.ConnectionTimeout:
            return False
        except psycopg.Error:
            return True
        return True


def _goes_on(gen: Any) -> Generator[Any, Any, Any]:
    """A generator of psycopg's that was given up waiting for, for another ``wait``: that begins with None, where this
    one waits for what is ready, and counts with it while it sends.
    """
    ready: Any = waiting.READY_NONE
    while True:
        try:
            state = gen.send(ready)
        except StopIteration as end:
            return end.value
        ready = yield state
