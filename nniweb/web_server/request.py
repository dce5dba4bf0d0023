"""One request of HTTP. One with a large body begins at its headers, and the application takes the body as it comes.

Used on the event loop's thread alone.
"""

from io import BytesIO
from typing import Any

from daphne.http_protocol import WebRequest
from twisted.web.http import NO_BODY_CODES

from nniweb.http.asgi import REST_OF_BODY, ASGIEvent, ASGIReceiveCallable, BodyReader, Scope
from nniweb.web_server.websocket import WebSocket
from trialkeeper.whole_number import whole_number


class Request(WebRequest):  # type: ignore[misc]  # Daphne's is not annotated
    """What Daphne makes of a request. Bodies never become files here."""

    #: None after the end, for whoever asks then.
    channel: Any = None
    #: Whether the client waits with the body until it hears that somebody wants it.
    awaits_continue = False
    #: Whether the application has it though its body is not there yet.
    _is_early = False
    #: Whether all of the body has come.
    _is_whole = True
    #: Bytes that wait for the application.
    _ahead = 0
    _is_paused = False

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        self._is_whole = length == 0

    def handleContentChunk(self, data: bytes) -> None:
        if not self._is_early:
            self.channel.body_came(self, data)
        elif self.channel is not None and self.application_queue is not None:
            self.channel.body_goes_on(len(data))
            self._give(data, more=True)

    def begin_early(self, method: bytes, uri: bytes, version: bytes) -> None:
        """Give it to the application. What comes of the body from now on is passed on as it comes."""
        so_far, self.content, self._is_early = self.content.getvalue(), BytesIO(), True
        self._process(method, uri, version)
        if so_far and self.application_queue is not None:
            self._give(so_far, more=True)

    def requestReceived(self, method: bytes, uri: bytes, version: bytes) -> None:
        """All of the body has come. Twisted's own would read forms into memory, which nobody here asks for."""
        self._is_whole = True
        if not self._is_early:
            self._process(method, uri, version)
        elif self.application_queue is not None:
            self._give(b"", more=False)

    def _process(self, method: bytes, uri: bytes, version: bytes) -> None:
        self.method, self.uri, self.clientproto = method, uri, version
        self.path = uri.split(b"?", 1)[0]
        # Daphne would believe whoever sends it; links that the application makes begin with it, also those in mails
        self.requestHeaders.removeHeader(b"daphne-root-path")
        is_upgrade = self.requestHeaders.getRawHeaders(b"Upgrade", [b""])[0].lower() == b"websocket"
        if is_upgrade and (self._is_early or self.content.tell()):
            self.basic_error(400, b"Bad Request", "A request to open a websocket has no body.")
            return
        transport, channel = self.transport, self.channel
        self.process()
        if is_upgrade and isinstance(transport.protocol, WebSocket):
            transport.protocol.take_over(channel)

    def _give(self, data: bytes, *, more: bool) -> None:
        self._ahead += len(data)
        self.application_queue.put_nowait({"type": "http.request", "body": data, "more_body": more})
        if more and not self._is_paused and self._ahead > self.channel.factory.allowances.ahead_bytes:
            self._is_paused = True
            self.channel.pause_body()

    def described(self, scope: Scope) -> Scope:
        """``scope`` for the application, with the way to take a large body past ``receive``."""
        if not self._is_early:
            return scope
        return {**scope, "extensions": {**scope.get("extensions", {}), REST_OF_BODY: self}}

    def reader(self) -> BodyReader | None:
        """See ``nniweb.http.asgi.RestOfBody``."""
        if self._is_whole or self._ahead or self.channel is None:
            return None
        return self.channel.begin_reading()  # type: ignore[no-any-return]

    def was_read(self, size: int) -> None:
        """See ``nniweb.http.asgi.RestOfBody``."""
        if self.channel is not None:
            self.channel.end_reading(size)

    def paced(self, receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
        """``receive`` for the application: what it takes makes room for more."""
        if not self._is_early:
            return receive
        is_first = True

        async def taken() -> ASGIEvent:
            nonlocal is_first
            if self.channel is not None:
                self.channel.may_continue(self)
            message = await receive()
            if is_first and message["type"] == "http.request":  # Daphne's, which takes the body for empty
                is_first = False
                return {**message, "more_body": True}
            self._ahead -= len(message.get("body", b""))
            if self._is_paused and self._ahead == 0 and self.channel is not None:
                self._is_paused = False
                self.channel.resume_body()
            return message

        return taken

    def handle_exception(self, exception: BaseException) -> None:
        """The application failed. An answer that has begun cannot become another one: its reader would wait for the
        rest for ever, and the error here would end Daphne's looking after applications.
        """
        if not self._response_started:
            super().handle_exception(exception)
        elif self.channel is not None:
            self.channel.cut()

    def finish(self) -> None:
        """The application says that the answer is whole. One that is shorter than its length ends with the connection.
        """
        length = whole_number(self.responseHeaders.getRawHeaders(b"content-length", [b""])[0])
        has_body = self.method != b"HEAD" and self.code not in NO_BODY_CODES
        if has_body and length is not None and self.sentLength < length and self.channel is not None:
            self.channel.cut()
        else:
            super().finish()

    def handle_reply(self, message: ASGIEvent) -> None:
        if message.get("type") == "http.response.start" and not self._is_whole:
            self.responseHeaders.setRawHeaders(b"connection", [b"close"])
            message = {**message, "headers": [header for header in message.get("headers", ())
                                              if header[0].lower() != b"connection"]}
        super().handle_reply(message)
