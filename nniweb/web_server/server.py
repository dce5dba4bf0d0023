"""Daphne's server with our connections. ``serve`` makes one; the command ``daphne`` does when it loads nniweb.asgi."""

import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Any

import daphne.server
from django.conf import settings
from twisted.internet import reactor
from twisted.internet.error import CannotListenError

from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, Scope
from nniweb.middleware.allowances import ANYBODYS_BYTES, Allowances
from nniweb.process.descriptors import ENOUGH, raise_limit
from nniweb.web_server.channel import Channel
from nniweb.web_server.connections import SHARE_OF_DESCRIPTORS, Connections
from nniweb.web_server.websocket import WebSocket

#: Seconds within which the reactor is to listen on a further port.
LISTENS_WITHIN = 10.0
#: Connections that may wait until they are taken; the system's own limit counts, too. Of more the system drops the
#: first packets, and who sent them tries again after 1, 3 and 7 seconds. Twisted's 50 are what a fleet of keepers that
#: open connections for their reports makes while the reactor is busy for a tenth of a second.
BACKLOG = 4096


class LoopbackPort:
    """A further port on which the server listens, as ``number``."""

    def __init__(self, listening: Any) -> None:
        self._listening = listening
        self.number: int = listening.getHost().port

    def close(self) -> None:
        """Take no further connection; those that there are go on. For any thread."""
        reactor.callFromThread(self._listening.stopListening)


class Server(daphne.server.Server):  # type: ignore[misc]  # Daphne's is not annotated
    """``options`` are Daphne's. Raises the process's limit on descriptors."""

    def __init__(self, application: ASGI3Application, *, endpoints: Iterable[str] = (),
                 allowances: Allowances | None = None, ready_callable: Callable[[], None] | None = None,
                 **options: Any) -> None:
        self._allowances, self._is_ready = allowances or Allowances(), ready_callable

        def begun(scope: Scope, receive: ASGIReceiveCallable, send: Any) -> Awaitable[None]:
            request = send.args[0]  # Daphne binds it to the request or websocket that it answers
            if scope["type"] == "http":
                scope = request.described(scope)
            return application(scope, request.paced(receive), send)

        # what is held of a body is given in one piece
        super().__init__(begun, endpoints=[_with_backlog(endpoint) for endpoint in endpoints],
                         ready_callable=self._ready, request_buffer_size=ANYBODYS_BYTES + 1, **options)

    def _ready(self) -> None:
        """Called when the factories are made and no connection has been taken yet."""
        allowances = self._allowances
        factory = self.http_factory
        factory.protocol = Channel
        factory.acceptableProtocols = lambda: [b"http/1.1"]
        factory.timeOut = None  # the channel's own times
        factory.log = lambda request: None  # Twisted writes a line for each request, which nobody gets to see
        factory.allowances = allowances
        descriptors = raise_limit()
        if descriptors == resource.RLIM_INFINITY:
            descriptors = ENOUGH
        factory.connections = Connections(int(descriptors * SHARE_OF_DESCRIPTORS), allowances.waiting_of_address,
                                          allowances.held_bytes, settings.TRUSTED_PROXIES)
        self.ws_factory.protocol = WebSocket
        self.ws_factory.setProtocolOptions(maxMessagePayloadSize=allowances.websocket_bytes, allowNullOrigin=True,
                                           maxFramePayloadSize=allowances.websocket_bytes)
        self._look()
        if self._is_ready is not None:
            self._is_ready()

    def listen_on_loopback(self, number: int) -> "LoopbackPort":
        """Listen on a further port of this machine, 0 for any that is free. For other threads than the reactor's.

        Raises OSError where that cannot be.
        """
        listening: Future[LoopbackPort] = Future()

        def begin() -> None:
            try:
                listening.set_result(LoopbackPort(reactor.listenTCP(
                    number, self.http_factory, backlog=BACKLOG, interface="127.0.0.1")))
            except CannotListenError as error:
                why = error.socketError.strerror or error.socketError
                listening.set_exception(OSError(f"port {number} cannot be used: {why}"))
            except Exception as error:
                listening.set_exception(error)

        reactor.callFromThread(begin)
        return listening.result(LISTENS_WITHIN)

    def _look(self) -> None:
        self.http_factory.connections.look(time.monotonic())
        reactor.callLater(self._allowances.look_seconds, self._look)


def _with_backlog(endpoint: str) -> str:
    """Twisted's description of where to listen, with ours where it takes one and says none."""
    return endpoint if not endpoint.startswith(("tcp:", "ssl:", "unix:")) or ":backlog=" in endpoint \
        else f"{endpoint}:backlog={BACKLOG}"


def take_the_place_of_daphnes() -> None:
    """Where the command ``daphne`` loads the application: the server that it makes next is ours."""
    if (cli := sys.modules.get("daphne.cli")) is not None:
        cli.CommandLineInterface.server_class = Server
