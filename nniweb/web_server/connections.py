"""Which connections are open and which of them only wait; those that wait longest make room for others.

Used on the event loop's thread alone.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from nniweb.http.proxies import Network, is_trusted
from nniweb.process.counted_address import counted_as

#: The part of the process's descriptors that connections may take; the others are for the database and files.
SHARE_OF_DESCRIPTORS = 0.75


class Connection(Protocol):
    """``held``: bytes of a body that is not whole yet. ``due``: monotonic time by which it must go on."""

    held: int
    due: float | None

    def make_room(self) -> None:
        """End, because others need the room. Nothing of a request is answered by then."""

    def is_overdue(self) -> None:
        """What was due did not come: end."""


class Connections:
    """All connections of one server."""

    def __init__(self, most: int, of_address: int, held_bytes: int, trusted: Sequence[Network] = ()) -> None:
        """``most``: connections in all; ``of_address``: waiting ones of one address that is not ``trusted``."""
        self._most, self._of_address, self._held_bytes, self._trusted = most, of_address, held_bytes, trusted
        self._open: dict[Connection, str] = {}
        self._held = 0
        #: Those that wait for bytes of a request, the longest first.
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        self._of: dict[str, OrderedDict[Connection, None]] = {}

    def opened(self, connection: Connection, host: str | None) -> None:
        """``host``: the address at the other end, None for a socket file. May end others, or this one."""
        self._open[connection] = self._counted_as(host)
        self.waits(connection)
        if len(self._open) > self._most:
            next(iter(self._waiting)).make_room()

    def waits(self, connection: Connection) -> None:
        """It waits for bytes from now on."""
        self._waiting[connection] = None
        if address := self._open[connection]:
            same = self._of.setdefault(address, OrderedDict())
            same[connection] = None
            if len(same) > self._of_address:
                next(iter(same)).make_room()

    def holds(self, connection: Connection, size: int) -> None:
        """So many bytes more of a body that is not whole are held for it."""
        connection.held += size
        self._held += size
        while self._held > self._held_bytes:
            next(other for other in self._waiting if other.held).make_room()

    def works(self, connection: Connection) -> None:
        """It waits no longer: its request is with the application, or the connection ends."""
        self._held -= connection.held
        connection.held = 0
        if self._waiting.pop(connection, self) is not self and (address := self._open[connection]):
            same = self._of[address]
            del same[connection]
            if not same:
                del self._of[address]

    def closed(self, connection: Connection) -> None:
        self.works(connection)
        self._open.pop(connection, None)

    def look(self, now: float) -> None:
        """Tell those that are overdue."""
        for connection in [each for each in self._open if each.due is not None and each.due < now]:
            connection.is_overdue()

    def _counted_as(self, host: str | None) -> str:
        """What connections from there are counted by, "" where they are not."""
        try:
            address = ipaddress.ip_address((host or "").partition("%")[0])
        except ValueError:
            return ""
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_loopback or is_trusted(str(address), self._trusted):
            return ""
        return counted_as(str(address))
