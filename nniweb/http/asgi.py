"""Types of ASGI, under the names that ``asgiref.typing`` gives them.

Those of asgiref describe what a server must send, not what an application may leave out: each optional key is required
there, and keys that middleware adds to a scope (``user``, ``session``, ``nniweb.nni_port``) do not exist.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

#: What a connection is: ``type``, ``path``, ``headers`` and so on.
Scope = MutableMapping[str, Any]
#: What goes through ``receive`` and ``send``: ``type`` and what belongs to that type.
ASGIEvent = MutableMapping[str, Any]
ASGIReceiveCallable = Callable[[], Awaitable[ASGIEvent]]
ASGISendCallable = Callable[[ASGIEvent], Awaitable[None]]
ASGI3Application = Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]


#: Key of a RestOfBody among the ``extensions`` of the scope of a request with a large body, under our web server.
REST_OF_BODY = "nniweb.rest_of_body"


class BodyReader(Protocol):
    """Reads what is there of a body. For any thread."""

    def read(self, write: Callable[[Sequence[memoryview]], None]) -> int:
        """Bytes that ``write`` has got. Blocks a moment at most. Raises what ``write`` raises."""

    def close(self) -> None:
        """Harmless when repeated. ``read`` closes by itself."""


class RestOfBody(Protocol):
    """Takes a body past ``receive``: for an application that gives it to a thread anyway. On the event loop."""

    def reader(self) -> BodyReader | None:
        """For what comes next; None where that has to come by ``receive``. Nothing else is read meanwhile."""

    def was_read(self, size: int) -> None:
        """Go on after ``reader``, which took so many bytes. What is left of the body, and its end, come by ``receive``.

        Not to be called where reading failed: such a request can only be refused.
        """


class PacedReceive(RestOfBody, Protocol):
    """``receive``, and the way past it."""

    async def __call__(self) -> ASGIEvent: ...
