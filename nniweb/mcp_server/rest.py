"""What tools need of the REST interface: requests in the name of the caller, and a wait for changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from nniweb.client.code_upload import FormBody

#: Waits until the experiment may have changed, at most so many seconds.
Changed = Callable[[float], Awaitable[None]]


class Rest(Protocol):
    """The REST interface for one caller. Everything a tool does goes through here: what the token may not do over REST
    no tool can do, and requests are counted and written down as those of REST.
    """

    #: The shell of the program that the agent started on the server's machine, as a launch takes it: local trials use
    #: its Python. "" elsewhere.
    shell: str

    async def ask(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None,
                  form: Callable[[], FormBody] | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """The document at a path below ``/api/v1/``, None where there is none.

        ``body`` is sent as JSON; ``form`` makes a multipart form instead. Raises Refused where the answer is an error
        of REST, and another ClientError where there is no answer.
        """

    def watching(self, experiment: str) -> AbstractAsyncContextManager[Changed]:
        """For the time of the block, a way to wait for changes of an experiment (its id, which the caller may see)."""


def path_part(name: str) -> str:
    """An id as a part of a path; what cannot be one becomes one that nothing has, so that REST says what it says."""
    is_plain = 0 < len(name) <= 64 and all(char.isascii() and (char.isalnum() or char in "-_") for char in name)
    return name if is_plain else "-"
