"""Every open websocket of this process, and whether what it was opened with still holds.

A socket is opened once and lives for days; whether its person may have it is asked every two seconds for all of them
together. Where the session has ended, or the person's account, password, role or groups are others than before, it is
closed with COME_AGAIN: the page comes back at once, and is let in, or not, as the person it is now.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from channels.db import database_sync_to_async

from nniweb.experiments.access import sessions
from nniweb.experiments.models import User

logger = logging.getLogger(__name__)

#: How often it is asked, in seconds.
LOOK_SECONDS = 2.0
#: Closing code: what the person may do has changed, or they are signed out; connecting again tells.
COME_AGAIN = 4409

#: What decides of a person, beside the groups, whether they are signed in and what they may see.
FIELDS = ("is_active", "password", "is_superuser", "role")
#: The values of FIELDS, and the groups. None: there is no such person any more.
Rights = tuple[Any, ...] | None


@dataclass(eq=False)
class OpenSocket:
    """One that was let in. ``ended`` is set when it must be closed."""

    user_pk: int
    session_key: str
    rights: Rights
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class OpenSockets:
    """Those of one event loop."""

    def __init__(self) -> None:
        self._sockets: set[OpenSocket] = set()
        self._look: asyncio.Task[None] | None = None

    async def let_in(self, user: User, session_key: str) -> OpenSocket:
        """``user``: as read when the socket was opened; where it is somebody else by now, the socket ends at once."""
        rights = (await database_sync_to_async(rights_of)([user.pk])).get(user.pk)
        socket = OpenSocket(user.pk, session_key, rights)
        if rights is None or rights[:-1] != tuple(getattr(user, name) for name in FIELDS):
            socket.ended.set()
        self._sockets.add(socket)
        if self._look is None:
            self._look = asyncio.get_running_loop().create_task(self._keep_looking())
        return socket

    def leave(self, socket: OpenSocket) -> None:
        self._sockets.discard(socket)
        if not self._sockets and self._look is not None:
            self._look.cancel()
            self._look = None

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._end_what_does_not_hold()
            except Exception:
                logger.exception("the permissions of open websockets could not be checked; they are checked again "
                                 "later")

    async def _end_what_does_not_hold(self) -> None:
        sockets = list(self._sockets)
        rights = await database_sync_to_async(rights_of)({socket.user_pk for socket in sockets})
        living = await database_sync_to_async(sessions.living)({socket.session_key for socket in sockets})
        for socket in sockets:
            if socket.session_key not in living or rights.get(socket.user_pk) != socket.rights:
                socket.ended.set()


def rights_of(user_pks: Collection[int]) -> dict[int, Rights]:
    """What decides what these people may see; one query."""
    people: dict[int, tuple[Any, ...]] = {}
    groups: dict[int, set[int | None]] = {}
    for pk, group, *facts in User.objects.filter(pk__in=user_pks).values_list("pk", "groups", *FIELDS):
        people[pk] = tuple(facts)
        groups.setdefault(pk, set()).add(group)
    return {pk: (*facts, frozenset(groups[pk])) for pk, facts in people.items()}


_of_loops: dict[asyncio.AbstractEventLoop, OpenSockets] = {}


def open_sockets() -> OpenSockets:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    for other in [other for other in _of_loops if other.is_closed()]:
        del _of_loops[other]
    return _of_loops.setdefault(loop, OpenSockets())
