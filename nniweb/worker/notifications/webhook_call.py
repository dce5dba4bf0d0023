"""One POST to an address that a person wrote: to a host whose addresses were checked, and to no other one.

The name is resolved once, all its addresses are checked, and the connection goes to one of those: another answer of
the name server a moment later changes nothing. Redirects are answers like others; proxies of the environment are not
used, since they would resolve the name again.
"""

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nniweb.experiments.clusters.public_addresses import NotPublic, addresses_of
from nniweb.experiments.notifications.webhook_address import ALLOWED_BY, WebhookAddress

CONNECT_SECONDS = 5.0
#: Bytes that are read of an answer, and with its headers and whatever frames it.
MOST_READ, MOST_RECEIVED = 2000, 1024 * 1024


class CallFailed(Exception):
    """There is no answer. The text is a sentence."""


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    #: Seconds, 0 where the receiver did not ask for a pause.
    retry_after: int


class _Limited(io.RawIOBase):
    """What a connection brings; after MOST_RECEIVED bytes as if it had ended."""

    def __init__(self, source: io.RawIOBase) -> None:
        self._source, self._left = source, MOST_RECEIVED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._source.readinto(memoryview(buffer)[:self._left])
        self._left -= count or 0
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _LimitedResponse(http.client.HTTPResponse):
    """The standard library reads a chunk of -1 bytes to the end of the connection, however much comes."""

    def __init__(self, connection: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(connection, *args, **more)
        self.fp = io.BufferedReader(_Limited(self.fp.detach()))


def post(address: WebhookAddress, body: bytes, headers: Mapping[str, str], *, also_private: bool, seconds: float
         ) -> Answer:
    """Blocking, at most about ``seconds`` and the name's look-up. Raises CallFailed."""
    try:
        numbers = addresses_of(address.host, address.port, also_private=also_private, allowed_by=ALLOWED_BY)
    except NotPublic as error:
        raise CallFailed(str(error)) from None
    deadline = time.monotonic() + seconds
    plain = _connected(numbers, address.port, deadline)
    # single reads have their own patience; who gets a byte now and then would read for ever. A second descriptor of the
    # connection, since TLS takes the first one over
    whole = plain.dup()
    end = threading.Timer(max(0.1, deadline - time.monotonic()), _shut, [whole])
    end.daemon = True
    try:
        end.start()
        return _talk(address, plain, body, headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = " in time" if time.monotonic() >= deadline else ""
        raise CallFailed(f"The receiver did not answer{late}: {_words(error)}.") from None
    finally:
        end.cancel()
        plain.close()
        whole.close()


def _connected(numbers: list[str], port: int, deadline: float) -> socket.socket:
    why = "no address"
    for number in numbers:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            return socket.create_connection((number, port), timeout=min(CONNECT_SECONDS, left))
        except OSError as error:
            why = f"{number}: {_words(error)}"
    raise CallFailed(f"The receiver cannot be reached ({why}).")


def _talk(address: WebhookAddress, plain: socket.socket, body: bytes, headers: Mapping[str, str]) -> Answer:
    connected = plain
    if address.is_tls:
        connected = ssl.create_default_context().wrap_socket(plain, server_hostname=address.host)
    try:
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.response_class = _LimitedResponse
        connection.auto_open = 0  # it never connects by itself, which would ask for the name again
        connection.sock = connected
        connection.putrequest("POST", address.target, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": address.host_header, "Content-Length": str(len(body)), "Connection": "close",
                            **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read(MOST_READ).decode("utf-8", "replace")
        asked = response.getheader("Retry-After") or ""
        is_number = asked.isascii() and asked.isdigit() and len(asked) < 9
        return Answer(response.status, text, int(asked) if is_number else 0)
    finally:
        if connected is not plain:
            connected.close()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it took too long"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)
