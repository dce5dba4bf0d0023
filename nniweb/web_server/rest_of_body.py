"""What is still to come of a body, read by a thread from a connection that the event loop leaves alone meanwhile.

An event loop that passes on each piece of a large body takes longer for it than the system does for receiving it; a
thread that reads into one buffer and writes from it takes nothing of the interpreter's time beside.
"""

import select
import socket
import threading
from collections.abc import Callable, Sequence

#: Bytes that are read and written at once.
PIECE_BYTES = 1024 * 1024
#: Milliseconds for which a thread waits for a sender that is a little slower than it, and the bytes that must have come
#: since it last did: no sender keeps a thread by sending a little again and again.
WAIT_MS, WORTH_WAITING = 20, 256 * 1024

_of_thread = threading.local()


class SocketReader:
    """Of one connection, whose socket does not block. ``read`` is for any thread, once."""

    def __init__(self, connection: socket.socket, most: int) -> None:
        """``connection``: its own descriptor, closed here. ``most``: bytes that it may take, at least one."""
        self._connection, self._most = connection, most

    def read(self, write: Callable[[Sequence[memoryview]], None]) -> int:
        """Bytes that were there and that ``write`` has got. Fewer than ``most`` when the sender is slower or gone.

        What ``write`` gets is valid until it returns; what it raises ends the reading.
        """
        try:
            return self._read(write)
        finally:
            self.close()

    def _read(self, write: Callable[[Sequence[memoryview]], None]) -> int:
        taken, waited_at = 0, 0
        with memoryview(_buffer()) as buffer:
            while taken < self._most:
                try:
                    size = self._connection.recv_into(buffer, min(PIECE_BYTES, self._most - taken))
                except BlockingIOError:
                    if taken - waited_at < WORTH_WAITING or not self._comes():
                        break
                    waited_at = taken
                    continue
                except OSError:  # the event loop finds out why
                    break
                if not size:
                    break
                with buffer[:size] as piece:
                    write((piece,))
                taken += size
        return taken

    def _comes(self) -> bool:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(WAIT_MS))

    def close(self) -> None:
        """Harmless when repeated."""
        self._connection.close()


def _buffer() -> bytearray:
    """The thread's own: making a new one for each body costs as much as filling it."""
    buffer: bytearray | None = getattr(_of_thread, "buffer", None)
    if buffer is None:
        buffer = _of_thread.buffer = bytearray(PIECE_BYTES)
    return buffer
