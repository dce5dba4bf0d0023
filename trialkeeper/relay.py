"""The agent's side of the second way home: HTTP requests of keepers, taken on a local socket and handed to the agent.

Where a machine cannot reach the server, its keepers ask here. A request is passed on in pieces, as JSON-able
messages that ``send`` carries to the service; ``answer`` brings back what the server said. The socket lies in a
folder of its own (0700) under the temporary folder, because the path of a socket may not be long; a small file,
which keepers read again before each attempt, says where. No threads: the agent's selector calls.
"""

import base64
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import tempfile
from typing import Any, Callable, Dict, Optional

from trialkeeper import machine
from trialkeeper.attempt_folder import make_private_folder, read_object, write_file
from trialkeeper.whole_number import whole_number

#: Bytes of a request that one message carries, and the longest head of a request.
PIECE, MOST_HEAD = 256 * 1024, 64 * 1024
#: Seconds a keeper may take to read its answer before it is given up.
SLOW_READER = 10.0


class Relay:
    """One socket for all keepers of this agent. ``close`` it at the agent's end."""

    def __init__(self, file: str, selector: selectors.BaseSelector, send: Callable[[Dict[str, Any]], None]) -> None:
        """``file``: where keepers look for the socket. An agent that is named there and still lives is ended."""
        self._selector, self._send, self._file = selector, send, file
        self._connections: Dict[int, _Connection] = {}
        self._last = 0
        make_private_folder(os.path.dirname(file))
        _end_predecessor(file)
        self._folder = tempfile.mkdtemp(prefix="nniweb-relay-")  # 0700
        path = os.path.join(self._folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o600)
        self._listener.listen(1024)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)
        write_file(file, json.dumps({"socket": path, "pid": os.getpid(),
                                     "start_time": machine.process_start_time(os.getpid())}))

    def answer(self, number: int, status: int, headers: Dict[str, str], body: bytes) -> None:
        """The server's answer to request ``number``. Harmless where the keeper has gone."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.answer(status, headers, body)

    def close(self) -> None:
        """Take no more requests; keepers that wait see their connection end."""
        for connection in list(self._connections.values()):
            connection.close()
        self._selector.unregister(self._listener)
        self._listener.close()
        if (read_object(self._file) or {}).get("pid") == os.getpid():
            with contextlib.suppress(OSError):
                os.remove(self._file)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        try:
            taken, _ = self._listener.accept()
        except OSError:
            return
        self._last += 1
        self._connections[self._last] = _Connection(self._last, taken, self._selector, self._send, self._connections)


class _Connection:
    """One request and its answer; the connection ends with the answer."""

    def __init__(self, number: int, taken: socket.socket, selector: selectors.BaseSelector,
                 send: Callable[[Dict[str, Any]], None], all_connections: Dict[int, "_Connection"]) -> None:
        self._number, self._socket, self._selector, self._send = number, taken, selector, send
        self._all = all_connections
        self._head: Optional[bytearray] = bytearray()  # None once it was passed on
        self._left = 0  # bytes of the body still to come
        taken.setblocking(False)
        selector.register(taken, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        try:
            data = self._socket.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._send({"event": "relay", "relay": self._number, "gone": True})
            self.close()
            return
        if self._head is not None:
            self._head += data
            head, blank, data = bytes(self._head).partition(b"\r\n\r\n")
            if not blank:
                if len(self._head) > MOST_HEAD:
                    self.answer(431, {}, b"")
                return
            self._head = None
            if not self._begin(head):
                return
        elif not self._left:
            return  # more than was announced: not of our keepers
        self._pass_on(data[:self._left])

    def _begin(self, head: bytes) -> bool:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in
                   (line.partition(":") for line in lines[1:])}
        length = whole_number(headers.get("content-length", "0"))
        if len(words) != 3 or length is None:
            self.answer(400, {}, b"")
            return False
        self._left = length
        self._send({"event": "relay", "relay": self._number, "method": words[0], "path": words[1],
                    "headers": headers, "length": self._left})
        return True

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._left -= len(data)
            self._send({"event": "relay", "relay": self._number, "data": base64.b64encode(data).decode("ascii")})

    def answer(self, status: int, headers: Dict[str, str], body: bytes) -> None:
        lines = ["HTTP/1.1 %d relayed" % status, "Content-Length: %d" % len(body), "Connection: close"]
        lines += ["%s: %s" % (name, value) for name, value in headers.items()
                  if name.lower() not in ("content-length", "connection", "transfer-encoding")]
        self._socket.settimeout(SLOW_READER)
        with contextlib.suppress(OSError):  # the keeper has gone: it will ask again
            self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        self.close()

    def close(self) -> None:
        if self._all.pop(self._number, None) is not None:
            self._selector.unregister(self._socket)
            self._socket.close()


def _end_predecessor(file: str) -> None:
    # the agent of a connection that broke may not have noticed: keepers would wait for its answers in vain
    before = read_object(file) or {}
    pid, path = before.get("pid"), before.get("socket")
    if isinstance(pid, int) and pid != os.getpid() and machine.process_lives(pid, before.get("start_time")):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if isinstance(path, str) and os.path.basename(os.path.dirname(path)).startswith("nniweb-relay-"):
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
