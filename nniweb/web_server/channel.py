"""One connection of HTTP/1.1: a time until its headers are there, a rate for a body, an end that the caller hears of.

Used on the event loop's thread alone. The times are numbers that the server looks at each second: a timer for each
request costs a seventh of the time that all of the request takes.
"""

import time

from twisted.internet import tcp
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from nniweb.middleware.allowances import ANYBODYS_BYTES, Allowances
from nniweb.web_server.connections import Connections
from nniweb.web_server.request import Request
from nniweb.web_server.rest_of_body import SocketReader

#: Seconds that a client may take to read the last of an answer.
READ_SECONDS = 600.0
#: Bytes that are read at once of a connection with large bodies: each read costs the loop as much as a small request.
READ_BYTES = 256 * 1024


class Channel(HTTPChannel):  # type: ignore[misc]  # Twisted's is not annotated
    """What Twisted makes of a connection, with our limits. ``factory`` has allowances and connections."""

    #: Twisted's, which looks at it before each request: whether those that have come wait until an answer is taken.
    paused: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        #: Time by which it must have done what it is to do next, on the monotonic clock; None: it may take its time.
        self.due: float | None = None
        #: Seconds that were left of that when the body was paused.
        self._left = 0.0
        #: Whether it is: nothing is read here then, whatever becomes of answers.
        self._is_body_paused = False
        #: Whether nothing has come since the connection began or its last request was answered.
        self._is_idle = False
        #: Whether what still comes is thrown away: the connection ends.
        self._is_leaving = False
        self._thrown_away = 0

    @property
    def _allowances(self) -> Allowances:
        return self.factory.allowances  # type: ignore[no-any-return]

    @property
    def _connections(self) -> Connections:
        return self.factory.connections  # type: ignore[no-any-return]

    def connectionMade(self) -> None:
        self.requestFactory = Request
        self.totalHeadersSize, self.maxHeaders = self._allowances.header_bytes, self._allowances.headers
        super().connectionMade()
        self.due = time.monotonic() + self._allowances.headers_seconds
        self._connections.opened(self, getattr(self.transport.getPeer(), "host", None))

    def connectionLost(self, reason: Failure) -> None:
        self._connections.closed(self)
        super().connectionLost(reason)

    # --- what comes ------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        if self._is_leaving:
            self._throw_away(len(data))
            return
        if self._is_idle and not self.paused:
            self._is_idle = False
            self.due = time.monotonic() + self._allowances.headers_seconds
        super().dataReceived(data)

    def allHeadersReceived(self) -> None:
        request = self.requests[-1]
        self.persistent = self.checkPersistence(request, self._version)
        request.gotLength(self.length)
        if self.length == 0:
            return
        expected = request.requestHeaders.getRawHeaders(b"Expect", [b""])[0].lower() == b"100-continue"
        request.awaits_continue = expected and self._version == b"HTTP/1.1"
        self.due = time.monotonic() + self._allowances.body_seconds
        if self.length is not None and self.length > ANYBODYS_BYTES:
            self.transport.bufferSize = READ_BYTES
            self.begin_early(request)
        else:
            self.may_continue(request)

    def rawDataReceived(self, data: bytes) -> None:
        if self._is_leaving:
            self._throw_away(len(data))
        else:
            super().rawDataReceived(data)

    def lineLengthExceeded(self, line: bytes) -> None:
        self._respondToBadRequestAndDisconnect()

    def body_came(self, request: Request, data: bytes) -> None:
        """A piece of a body, for a request that is not with the application yet. Keeps it, or begins early."""
        if request.content.tell() + len(data) > ANYBODYS_BYTES:
            self.begin_early(request)
            request.handleContentChunk(data)
            return
        request.content.write(data)
        self.body_goes_on(len(data))
        self._connections.holds(self, len(data))

    def body_goes_on(self, size: int) -> None:
        """So much of the body has come: it may take so much longer."""
        if self.due is not None:
            latest = time.monotonic() + self._allowances.body_seconds
            self.due = min(latest, self.due + size / self._allowances.body_rate)

    def begin_early(self, request: Request) -> None:
        """Give the request to the application, which takes the body while it comes."""
        self._connections.works(self)
        request.begin_early(self._command, self._path, self._version)

    def may_continue(self, request: Request) -> None:
        """Tell a client that waits with the body until somebody wants it."""
        if request.awaits_continue:
            request.awaits_continue = False
            self._send100Continue()

    def allContentReceived(self) -> None:
        if self._is_leaving:
            return
        self.due, self._is_body_paused = None, False
        self._connections.works(self)
        super().allContentReceived()

    # --- when the application is slower than the sender ---------------------------------------

    def pause_body(self) -> None:
        if self.due is not None:
            self._left = self.due - time.monotonic()
        self.due, self._is_body_paused = None, True
        self._networkProducer.pauseProducing()

    def resume_body(self) -> None:
        if self._is_leaving or self._handlingRequest:
            return
        # not anew: who sends a little again and again would never be too slow
        self.due, self._is_body_paused = time.monotonic() + self._left, False
        if not self._waitingForTransport:
            self._networkProducer.resumeProducing()

    # --- when who asked is slower than the answer ------------------------------------------------

    def resumeProducing(self) -> None:
        """What was written has been taken: Twisted would read on, also of a body that is paused."""
        if self._is_body_paused:
            self._waitingForTransport = False
            if self._requestProducer is not None:
                self._requestProducer.resumeProducing()
            return
        super().resumeProducing()
        if self.paused:
            self.paused = False
            if self._buffer:
                self.dataReceived(b"")

    def _wait_until_read(self) -> None:
        """No further request before this answer has been taken: of one who only asks, answers would fill the memory."""
        self.paused = True
        self._networkProducer.pauseProducing()

    # --- a body that a thread reads -----------------------------------------------------------

    def begin_reading(self) -> SocketReader | None:
        """A reader of what is left of the body, while nothing is read here. None where that cannot be: the length is
        not known, or what comes is encrypted.
        """
        left = getattr(self._transferDecoder, "contentLength", None)
        if not left or self._is_leaving or not isinstance(self.transport, tcp.Connection) or self.transport.TLS:
            return None
        self.pause_body()
        # its own descriptor: this one may be closed, and its number be another connection's, while a thread reads
        return SocketReader(self.transport.getHandle().dup(), left)

    def end_reading(self, size: int) -> None:
        """Go on here, behind so many bytes of the body."""
        if self._is_leaving or self._transferDecoder is None:
            return
        self._transferDecoder.contentLength -= size
        self.resume_body()
        self.body_goes_on(size)
        if not self._transferDecoder.contentLength:
            self.rawDataReceived(b"")  # nothing more comes of the body that Twisted could find its end by

    # --- the end ---------------------------------------------------------------------------

    def requestDone(self, request: Request) -> None:
        if not self._handlingRequest:  # answered before its body was there
            del self.requests[0]
            self._leave()
            return
        if self.persistent:
            self._is_idle = True
            self.due = self._when_read(self._allowances.idle_seconds)
            self._connections.waits(self)
            if self._waitingForTransport:
                self._wait_until_read()
        super().requestDone(request)

    def _leave(self) -> None:
        """No more requests here. The caller may still be sending and must see the answer: closing at once would take
        it away from them.
        """
        self._is_leaving, self.persistent = True, False
        self.setRawMode()
        self._connections.works(self)
        self.due = self._when_read(self._allowances.leaving_seconds)
        self._networkProducer.unregisterProducer()
        self.transport.loseWriteConnection()
        self._networkProducer.resumeProducing()

    def _when_read(self, seconds: float) -> float:
        """The time in so many seconds, later where much of an answer waits for a slow reader."""
        return time.monotonic() + (READ_SECONDS if self._waitingForTransport else seconds)

    def _throw_away(self, size: int) -> None:
        self._thrown_away += size
        if self._thrown_away > self._allowances.leaving_bytes:
            self.transport.abortConnection()

    def _respondToBadRequestAndDisconnect(self) -> None:
        if not self._is_leaving:
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self._leave()

    def loseConnection(self) -> None:
        self._is_leaving = True
        self._connections.works(self)
        self.due = time.monotonic() + READ_SECONDS
        super().loseConnection()

    def is_overdue(self) -> None:
        """Too slow: said to who waits for an answer, and the connection ends."""
        if self._is_leaving:
            self.transport.abortConnection()
            return
        if self.requests and not self._handlingRequest and not self.requests[-1].startedWriting:
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self._leave()

    def make_room(self) -> None:
        """See ``nniweb.web_server.connections.Connection``."""
        self.cut()

    def cut(self) -> None:
        """End at once, in the middle of what is read or written: the other side sees that it is not whole."""
        self._is_leaving = True
        self._connections.works(self)
        self.transport.abortConnection()
