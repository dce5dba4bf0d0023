"""One websocket: nothing is read while it is decided who it is, nor while many messages wait.

Used on the event loop's thread alone.
"""

from typing import Any, Protocol

from daphne.ws_protocol import WebSocketProtocol

from nniweb.http.asgi import ASGIEvent, ASGIReceiveCallable


class CountedConnection(Protocol):
    """``channel.Channel``, as far as a websocket needs it."""

    factory: Any


class WebSocket(WebSocketProtocol):  # type: ignore[misc]  # Daphne's is not annotated
    """What Daphne makes of a websocket, reading only what the application keeps up with."""

    _channel: CountedConnection | None = None
    _waiting = 0
    _is_paused = False

    def take_over(self, channel: CountedConnection) -> None:
        """``channel`` was the connection's until now, and is counted as open until this one ends."""
        self._channel = channel
        if self.state == self.STATE_CONNECTING:
            self._pause()

    def serverAccept(self, subprotocol: str | None = None) -> None:
        super().serverAccept(subprotocol)
        self._resume()

    def connectionLost(self, reason: Any) -> None:
        if self._channel is not None:
            self._channel.factory.connections.closed(self._channel)
            self._channel = None
        super().connectionLost(reason)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        super().onMessage(payload, isBinary)
        self._waiting += 1
        if self._channel is not None and self._waiting > self._channel.factory.allowances.websocket_messages:
            self._pause()

    def paced(self, receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
        """``receive`` for the application: what it takes makes room for more."""

        async def taken() -> ASGIEvent:
            message = await receive()
            if message["type"] == "websocket.receive":
                self._waiting -= 1
                if not self._waiting:
                    self._resume()
            return message

        return taken

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.transport.pauseProducing()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resumeProducing()
