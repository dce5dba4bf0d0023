"""Types of ASGI, under the names that ``asgiref.typing`` gives them.

Those of asgiref describe what a server must send, not what an application may leave out: each optional key is required
there, and keys that middleware adds to a scope (``user``, ``session``, ``nniweb.nni_port``) do not exist.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

#: What a connection is: ``type``, ``path``, ``headers`` and so on.
Scope = MutableMapping[str, Any]
#: What goes through ``receive`` and ``send``: ``type`` and what belongs to that type.
ASGIEvent = MutableMapping[str, Any]
ASGIReceiveCallable = Callable[[], Awaitable[ASGIEvent]]
ASGISendCallable = Callable[[ASGIEvent], Awaitable[None]]
ASGI3Application = Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]
