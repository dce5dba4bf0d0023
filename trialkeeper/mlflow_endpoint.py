"""An MLflow tracking server for one trial: on the loopback of its machine, for who has the trial's token.

A small HTTP server of its own: the standard library's costs five times as much for each of the many small calls, which
come one after the other on one connection.
"""

import contextlib
import hmac
import json
import os
import pkgutil
import re
import select
import socket
import struct
from collections import OrderedDict
from typing import Any, Dict, Optional, Tuple, Union

from trialkeeper import mlflow_stores
from trialkeeper.mlflow_calls import MlflowCalls
from trialkeeper.trial_environment import MLFLOW_URI

TOKEN_VARIABLE = "MLFLOW_TRACKING_TOKEN"
#: With these a client would send a name and a password in place of the token.
_OTHER_CREDENTIALS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
#: Bytes of the head of a request and of its body; connections at a time; seconds that an answer may take to go out.
MOST_HEAD, MOST_BODY, MOST_CONNECTIONS, PATIENCE = 64 * 1024, 4 * 1024 * 1024, 100, 10
_PATIENCE = struct.pack("@ll", PATIENCE, 0)  # a struct timeval
#: The answer of nearly all calls.
_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:([^\r\n]*)", re.IGNORECASE)
_DIGITS = re.compile(rb"\d{1,12}")
_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)
_UNUSUAL = re.compile(rb"\r\n(?:transfer-encoding:|connection:[ \t]*close|expect:)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close")
_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 411: b"Length Required",
            413: b"Content Too Large", 431: b"Request Header Fields Too Large", 500: b"Internal Server Error"}


class _Connection:
    """One client's. ``size``, ``unusual`` and ``path`` belong to ``head``, the last one that may be answered: a client
    sends nearly the same head with each of its calls.
    """

    __slots__ = ("socket", "buffer", "head", "size", "unusual", "path")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.buffer = bytearray()
        #: None until the client has shown the token.
        self.head: Optional[bytes] = None
        self.size, self.unusual, self.path = 0, b"", ""


class MlflowEndpoint:
    """``serve`` on a thread of its own, for as long as the process lives."""

    def __init__(self, output_folder: str) -> None:
        """Listens, but answers nobody yet. Raises OSError."""
        self._calls = MlflowCalls(output_folder)
        self._token = os.urandom(24).hex()
        self._authorization = b"Bearer " + self._token.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        # the module ``selectors`` costs more for each small call than what is done with it
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        #: By descriptor, the one first that has been silent for longest.
        self._connections: "OrderedDict[int, _Connection]" = OrderedDict()

    def variables(self) -> Dict[str, str]:
        """By which MLflow's clients find it."""
        uri = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        return {MLFLOW_URI: uri, mlflow_stores.OWN_URI: uri, TOKEN_VARIABLE: self._token,
                **dict.fromkeys(_OTHER_CREDENTIALS, "")}

    def folder_for_trials(self, attempt_folder: str) -> Optional[str]:
        """For PYTHONPATH: by which scripts find it that name another place on this machine. None where none can be
        made; these scripts then log where they say.
        """
        module = pkgutil.get_data(__package__, "mlflow_stores.py")  # also in the zipapp
        try:
            return mlflow_stores.make_folder(attempt_folder, (module or b"").decode())
        except OSError:
            return None

    def serve(self) -> None:
        """Answer calls. Does not return."""
        listener = self._listener.fileno()
        while True:
            accepts = False
            for descriptor, _ in self._poll.poll():
                if descriptor == listener:
                    accepts = True
                else:
                    self._attend(descriptor)
            # last: it may end a connection that had something to say
            if accepts:
                with contextlib.suppress(OSError):
                    self._accept()

    def _attend(self, descriptor: int) -> None:
        try:
            goes_on = self._read(self._connections[descriptor])
        except (OSError, MemoryError, RecursionError):  # the others go on
            goes_on = False
        if goes_on:
            self._connections.move_to_end(descriptor)
        else:
            self._drop(descriptor)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if len(self._connections) >= MOST_CONNECTIONS:
            # one of who has not shown the token; else one that a client keeps open for a later request, which it then
            # sends on a new one
            self._drop(next((descriptor for descriptor, one in self._connections.items() if one.head is None),
                            next(iter(self._connections))))
        # a timeout of Python's own would cost two more calls of the system for each request
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[connection.fileno()] = _Connection(connection)
        self._poll.register(connection, select.POLLIN)

    def _drop(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._connections.pop(descriptor).socket.close()

    def _read(self, connection: _Connection) -> bool:
        """Answer what is there whole; False where the connection is at its end."""
        data: Union[bytes, bytearray] = connection.socket.recv(256 * 1024)
        if not data:
            return False
        if connection.buffer:
            connection.buffer += data
            data = connection.buffer
        done = 0
        while True:
            end = data.find(b"\r\n\r\n", done)
            if end < 0 or end - done > MOST_HEAD:
                if len(data) - done > MOST_HEAD:
                    return self._send(connection, 431, {"message": "the head is too long"})
                break
            head = bytes(data[done:end + 2])
            if head != connection.head:
                problem = self._take_head(connection, head)
                if problem is not None:
                    return self._send(connection, problem[0], {"error_code": problem[1], "message": problem[2]})
            if len(data) < end + 4 + connection.size:
                if b"\r\nexpect:" in connection.unusual and len(data) == end + 4:
                    connection.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                break
            body = bytes(data[end + 4:end + 4 + connection.size])
            done = end + 4 + connection.size
            status, document = self._calls.answer(connection.path, body)
            self._send(connection, status, document)
            if connection.unusual and _CLOSE.search(connection.unusual):
                return False
            if done == len(data):
                break
        if data is connection.buffer:
            del connection.buffer[:done]
        else:
            connection.buffer += data[done:]
        return True

    def _take_head(self, connection: _Connection, head: bytes) -> Optional[Tuple[int, str, str]]:
        """What is wrong with the head of a request; None where it may be answered, then it is the connection's."""
        size = _size_of_body(head)
        unusual = head.lower() if _UNUSUAL.search(head) else b""
        request = _REQUEST.match(head)
        problem = self._problem(head, size, unusual)
        if problem is None and request is not None:
            connection.head, connection.size, connection.unusual = head, size, unusual
            connection.path = request.group(2).decode("latin-1")
        return problem

    def _problem(self, head: bytes, size: int, unusual: bytes) -> Optional[Tuple[int, str, str]]:
        """Status, MLflow's word and a sentence, None where the request may be answered."""
        if _REQUEST.match(head) is None:
            return 400, "BAD_REQUEST", "this is no request of HTTP/1.1"
        given = _AUTHORIZATION.search(head)
        if given is None or not hmac.compare_digest(given.group(1).strip(), self._authorization):
            return 401, "UNAUTHENTICATED", "this address is for the trial alone, whose token is in " + TOKEN_VARIABLE
        if b"\r\ntransfer-encoding:" in unusual:
            return 411, "BAD_REQUEST", "a request must have its length"
        if size < 0:
            return 400, "BAD_REQUEST", "Content-Length must be given once, as a number"
        if size > MOST_BODY:
            return 413, "BAD_REQUEST", "a request may have %d bytes" % MOST_BODY
        return None

    def _send(self, connection: _Connection, status: int, document: Any) -> bool:
        """False: after these the connection ends."""
        if status == 200 and not document:
            connection.socket.sendall(_DONE)
            return False
        body = json.dumps(document).encode()
        connection.socket.sendall(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
                status, _REASONS[status], len(body), body))
        return False


def _size_of_body(head: bytes) -> int:
    """In bytes, 0 where the request does not say; -1 where it says no number, or two."""
    given = {text.strip() for text in _LENGTH.findall(head)}
    if not given:
        return 0
    text = given.pop()
    return int(text) if not given and _DIGITS.fullmatch(text) else -1
