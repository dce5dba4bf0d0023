"""A transport of SSH that holds only so much of what a machine sends.

Paramiko believes each length that it is told, and counts nothing against the window that it has given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA
from paramiko.packet import Packetizer
from paramiko.sftp import CMD_NAME

#: Bytes of the longest packet, as of OpenSSH.
MOST_OF_PACKET = 256 * 1024
#: Bytes of one channel that nobody has read yet. A machine that keeps to its window sends two megabytes.
MOST_UNREAD = 8 * 1024 * 1024
#: Bytes of the names in one folder: some hundred thousand.
MOST_OF_LIST = 64 * 1024 * 1024


class _BoundedPackets(Packetizer):
    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MOST_OF_PACKET:
            raise paramiko.SSHException(f"it sent a packet of more than {MOST_OF_PACKET // 1024} KB")
        return super().read_all(n, check_rekey)


def _bounded(feed: Callable[[paramiko.Channel, paramiko.Message], None]
             ) -> Callable[[paramiko.Channel, paramiko.Message], None]:
    def feed_bounded(channel: paramiko.Channel, message: paramiko.Message) -> None:
        feed(channel, message)
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > MOST_UNREAD:
            raise paramiko.SSHException(f"it sent more than {MOST_UNREAD // 1024 ** 2} MB that nobody has asked for")

    return feed_bounded


class BoundedTransport(paramiko.Transport):
    """What sends more ends: its reading thread gets an SSHException."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_DATA: _bounded(paramiko.Channel._feed),  # type: ignore[attr-defined]
        MSG_CHANNEL_EXTENDED_DATA: _bounded(paramiko.Channel._feed_extended)}  # type: ignore[attr-defined]

    def __init__(self, sock: Any, *, preferred_keys: Collection[str] = (), **more: Any) -> None:
        """``preferred_keys``: algorithms of host keys that come before others."""
        super().__init__(sock, packetizer_class=_BoundedPackets, **more)
        options = self.get_security_options()
        options.key_types = sorted(options.key_types, key=lambda kind: kind not in preferred_keys)


class BoundedSftp(paramiko.SFTPClient):
    """A session of SFTP in which no list of a folder goes on for ever."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._listed = 0  # bytes of names in a row
        super().__init__(channel)

    def _read_packet(self) -> tuple[int, bytes]:
        kind, content = super()._read_packet()  # type: ignore[misc]
        self._listed = self._listed + len(content) if kind == CMD_NAME else 0
        if self._listed > MOST_OF_LIST:
            raise paramiko.SSHException(f"it lists a folder with more than {MOST_OF_LIST // 1024 ** 2} MB of names")
        return kind, content
