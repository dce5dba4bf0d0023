"""Answers to requests that are whole in time. The timeout of a connection is for single pieces: who sends a byte now
and then would be listened to for ever.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

#: An answer has so many times the seconds that one piece of it may take.
PIECES = 4


class AnswerTooSlow(TimeoutError):
    """It was not whole in time."""


def is_too_slow(error: BaseException | None) -> bool:
    """Whether this is what libraries have made of it."""
    while error is not None and not isinstance(error, AnswerTooSlow):
        error = error.__cause__ or error.__context__
    return error is not None


class _Timed(io.RawIOBase):
    """What a connection brings, until the time of one answer is over."""

    def __init__(self, source: io.RawIOBase, seconds: float) -> None:
        self._source, self._seconds = source, seconds
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self._until:
            raise AnswerTooSlow(f"its answer was not complete within {self._seconds:.0f} s")
        return self._source.readinto(buffer)

    def close(self) -> None:
        self._source.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, connection: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(connection, *args, **more)
        seconds = connection.gettimeout()
        if seconds is not None:
            self.fp = io.BufferedReader(_Timed(self.fp.detach(), PIECES * seconds))


class _Connection(HTTPConnection):
    response_class = _TimedResponse


class _TlsConnection(HTTPSConnection):
    response_class = _TimedResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class TimedAdapter(HTTPAdapter):
    """For the requests of a session. An answer that takes too long is a timeout."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        _time_answers(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*args, **more)
        if isinstance(manager, ProxyManager):  # SOCKS has connections of its own
            _time_answers(manager)
        return manager


def _time_answers(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
