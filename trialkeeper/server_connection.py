"""HTTP to the server: one connection that is kept, several addresses that are tried in order.

http.client only; ssl is loaded for https addresses alone, because it doubles what a keeper needs.
"""

import contextlib
import errno
import json
import os
import select
import socket
import sys
from typing import IO, Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from trialkeeper import contract
from trialkeeper.access import RELAY, Access
from trialkeeper.whole_number import whole_number

if "ssl" in sys.modules:
    import http.client as http_client
else:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # http.client then leaves it out
    try:
        import http.client as http_client
    finally:
        del sys.modules["ssl"]

#: Seconds until a connection must stand, and until an answer must come.
CONNECT_TIMEOUT, ANSWER_TIMEOUT = 10.0, 60.0
#: Seconds to try an address while the agent's socket is there as another way.
CONNECT_TIMEOUT_BESIDE_RELAY = 3.0
#: Bytes of a file that are sent at once.
BLOCK_BYTES = 256 * 1024
#: The same where the system sends.
SENT_AT_ONCE = 1024 * 1024
#: Of what is sent, not of the connection.
_ERRORS_OF_FILES = (errno.EIO, errno.ESTALE)
#: Bodies longer than this are compressed.
COMPRESS_FROM = 4096



class Blocks:
    """A body that is sent as it is, block by block: weights do not get smaller by compressing them."""

    def __init__(self, content: Union[bytes, bytearray], moved: Callable[[], None] = lambda: None) -> None:
        """``moved`` is called for each block."""
        self._content, self._moved = memoryview(content), moved

    def __len__(self) -> int:
        return len(self._content)

    def __iter__(self) -> Iterator[memoryview]:
        for begin in range(0, len(self._content), BLOCK_BYTES):
            yield self._content[begin:begin + BLOCK_BYTES]
            self._moved()


class PartFailed(Exception):
    """What was to be sent of a file cannot be read. ``error``: the system's; None: the file has become shorter."""

    def __init__(self, error: Optional[OSError]) -> None:
        super().__init__(str(error or "the file has become shorter"))
        self.error = error


class FilePart:
    """A body that the system sends from a file, without a copy in this process where it can: half the work of a large
    checkpoint is copying.
    """

    def __init__(self, stream: BinaryIO, begin: int, size: int, moved: Callable[[], None] = lambda: None) -> None:
        """``stream``: unbuffered. ``moved`` is called for each block."""
        self._stream, self._begin, self._size, self._moved = stream, begin, size, moved

    def __len__(self) -> int:
        return self._size

    def send_to(self, sock: socket.socket) -> None:
        """Raises PartFailed, OSError of the connection."""
        at, end = self._begin, self._begin + self._size
        send = _send_by_system if type(sock) is socket.socket else _send_read  # the other kind encrypts
        while at < end:
            try:
                sent = send(sock, self._stream, at, min(SENT_AT_ONCE, end - at))
            except OSError as error:
                if error.errno in _ERRORS_OF_FILES:
                    raise PartFailed(error) from error
                raise
            if not sent:
                raise PartFailed(None)
            at += sent
            self._moved()


def _send_by_system(sock: socket.socket, stream: BinaryIO, at: int, size: int) -> int:
    return sock.sendfile(stream, at, size)


def _send_read(sock: socket.socket, stream: BinaryIO, at: int, size: int) -> int:
    stream.seek(at)
    block = stream.read(min(BLOCK_BYTES, size))
    sock.sendall(block)
    return len(block)


#: A stream is read from its beginning, also where it has to be sent once more.
Body = Union[bytes, IO[bytes], Blocks, FilePart, None]


class Answer(NamedTuple):
    """``document``: the body as a JSON object, {} where it is none."""

    status: int
    document: Dict[str, Any]
    url: str
    #: Seconds the server asks us to stay away; 0: it does not say.
    retry_after: float = 0.0

    @property
    def installation(self) -> Optional[str]:
        value = self.document.get("installation")
        return value if isinstance(value, str) and value else None


class ServerAway(Exception):
    """No address gave an answer that counts. ``str(error)``: why, for the keeper's log."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServerConnection:
    """Calls the server. For one thread at a time."""

    def __init__(self, access: Access, patience: float = ANSWER_TIMEOUT) -> None:
        """``patience``: seconds for which one address is waited for at most."""
        self._access, self._patience = access, patience
        self._connection: Optional[http_client.HTTPConnection] = None
        self._url = ""
        self._connect_timeout = CONNECT_TIMEOUT

    @property
    def way(self) -> str:
        """By which way the last answer came: "direct" or "relay"; "" before the first."""
        return "" if not self._url else "relay" if self._url.startswith(RELAY) else "direct"

    def call(self, method: str, path: str, counts: Callable[[Answer], str], body: Body = None,
             headers: Mapping[str, str] = {}, sink: Optional[IO[bytes]] = None) -> Answer:
        """The first answer that counts. Raises ServerAway.

        ``path`` is relative to the protocol's prefix. ``counts`` says "" for an answer that counts, else why not
        (another program on that port); then the next address is tried. ``sink`` takes the body of a 200.
        """
        urls = self._access.current_urls()
        if self._url in urls:
            urls.remove(self._url)
            urls.insert(0, self._url)  # what worked last is tried first
        self._connect_timeout = min(self._patience, CONNECT_TIMEOUT_BESIDE_RELAY
                                    if urls and urls[-1].startswith(RELAY) else CONNECT_TIMEOUT)
        reasons: List[str] = []
        retry_after = 0.0
        for url in urls:
            try:
                answer = self._call_one(url, method, path, body, headers, sink)
            except (OSError, http_client.HTTPException, ValueError) as error:
                self.close()
                reasons.append("%s: %s" % (url, error or type(error).__name__))
                continue
            reason = counts(answer)
            if not reason:
                return answer
            self.close()
            reasons.append("%s: %s" % (url, reason))
            retry_after = max(retry_after, answer.retry_after)
        raise ServerAway("; ".join(reasons) or "no address of a server is known", retry_after)

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        connection, self._connection = self._connection, None
        self._url = ""
        if connection is not None:
            connection.close()

    def _call_one(self, url: str, method: str, path: str, body: Body, headers: Mapping[str, str],
                  sink: Optional[IO[bytes]]) -> Answer:
        all_headers = {"Authorization": "Bearer " + self._access.token, "Accept": "application/json"}
        all_headers.update(headers)
        if isinstance(body, bytes) and len(body) > COMPRESS_FROM:
            body = _gzip(body)
            all_headers["Content-Encoding"] = "gzip"
        if self._connection is not None and (self._url != url or self._is_stale()):
            self.close()
        reused = self._connection is not None
        target = ("" if url.startswith(RELAY) else urlsplit(url).path) + contract.URL_PREFIX + path
        try:
            return self._exchange(url, method, target, body, all_headers, sink)
        except (OSError, http_client.HTTPException):
            self.close()
            if not reused:
                raise
        # a kept connection may end at any time; whatever was sent may be sent again
        if body is not None and not isinstance(body, (bytes, Blocks, FilePart)):
            body.seek(0)
        return self._exchange(url, method, target, body, all_headers, sink)

    def _exchange(self, url: str, method: str, target: str, body: Body, headers: Mapping[str, str],
                  sink: Optional[IO[bytes]]) -> Answer:
        connection = self._connection or self._connect(url)
        if isinstance(body, FilePart):
            self._send_part(connection, method, target, body, headers)
        else:
            connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
        document: Any = None
        if sink is not None and response.status == 200:
            sink.seek(0)
            sink.truncate()
            while True:
                block = response.read(256 * 1024)
                if not block:
                    break
                sink.write(block)
        else:
            text = response.read(contract.MAX_REPORT_BYTES + 1)
            with contextlib.suppress(ValueError, RecursionError):
                document = json.loads(text)
        if response.will_close or not response.isclosed():
            self.close()
            self._url = url
        return Answer(response.status, document if isinstance(document, dict) else {}, url,
                      _seconds(response.headers.get("Retry-After")))

    def _send_part(self, connection: http_client.HTTPConnection, method: str, target: str, part: FilePart,
                   headers: Mapping[str, str]) -> None:
        connection.request(method, target, None, {**headers, "Content-Length": str(len(part))})
        assert connection.sock is not None
        try:
            part.send_to(connection.sock)
        except PartFailed:
            self.close()  # the server waits for the rest
            raise

    def _connect(self, url: str) -> http_client.HTTPConnection:
        if url.startswith(RELAY):
            self._connection, self._url = _relay_connection(url[len(RELAY):], self._answer_timeout), url
            return self._connection
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("is no address like http://host:port")
        if parts.scheme == "https":
            connection = _https_connection(parts.hostname, parts.port, self._access.ca_file, self._connect_timeout)
        else:
            connection = http_client.HTTPConnection(parts.hostname, parts.port, timeout=self._connect_timeout,
                                                    blocksize=BLOCK_BYTES)
        connection.connect()
        connection.sock.settimeout(self._answer_timeout)
        self._connection, self._url = connection, url
        return connection

    @property
    def _answer_timeout(self) -> float:
        return min(self._patience, ANSWER_TIMEOUT)

    def _is_stale(self) -> bool:
        # between two calls the server has nothing to say: if there is something to read, it is the end
        sock = self._connection.sock if self._connection is not None else None
        return sock is None or bool(select.select([sock], [], [], 0)[0])


def _relay_connection(path: str, timeout: float) -> http_client.HTTPConnection:
    """A connection to the agent's socket on this machine."""
    connection = http_client.HTTPConnection("relay", timeout=timeout)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(timeout)
    connection.sock.connect(path)
    return connection


def _https_connection(host: str, port: Optional[int], ca_file: Optional[str],
                      timeout: float) -> http_client.HTTPConnection:
    global http_client
    try:
        import ssl
    except ImportError as error:
        raise ValueError("needs https, but this Python (%s) was built without ssl" % sys.executable) from error
    if not hasattr(http_client, "HTTPSConnection"):
        import importlib
        http_client = importlib.reload(http_client)  # this time with ssl
    if ca_file is not None and not os.path.isfile(ca_file):
        raise ValueError("the file %s with the certificate authority does not exist" % ca_file)
    return http_client.HTTPSConnection(host, port, timeout=timeout, blocksize=BLOCK_BYTES,
                                       context=ssl.create_default_context(cafile=ca_file))


def _seconds(header: Optional[str]) -> float:
    return float(min(whole_number(header or "") or 0, 3600))


def _gzip(data: bytes) -> bytes:
    import zlib
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
