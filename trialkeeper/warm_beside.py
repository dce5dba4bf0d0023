"""The process beside a warm trial: its parent, and the reaper of its orphans. And the packets by which it, the parent
that forked it, the keeper and the agent speak.

Runs in the trial's Python beside ``warm_parent.py``, from CPython 3.6 on; the agent uses it, too.
"""

import contextlib
import json
import os
import select
import signal
import socket
import struct

TYPE_CHECKING = False  # typing itself would be loaded in each trial
if TYPE_CHECKING:
    from typing import Any, Dict, List

#: Most bytes of one packet, and descriptors with it.
PACKET, DESCRIPTORS = 192 * 1024, 4


def watch(connection: "socket.socket", trial: int) -> None:
    """Until nothing of the trial is left: tell its keeper how it ended. Returns at once when the keeper hangs up."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    while True:
        message: "Dict[str, Any]" = {}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == trial:
                    message["status"] = status
        except ChildProcessError:
            message["empty"] = True
        if message:
            send(connection, message)
        if "empty" in message:
            return
        found = select.select([connection.fileno(), reader], [], [])[0]
        if connection.fileno() in found:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 4096)


def mark_process(variable: str, mark: str) -> None:
    """Write the mark over the one of the same length that this process was started with, for all who read
    /proc/<pid>/environ.
    """
    import ctypes
    with open("/proc/self/stat", "rb") as stream:
        fields = stream.read().rpartition(b")")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    found = ctypes.string_at(begin, end - begin).find(b"\0" + os.fsencode(variable) + b"=")
    at = begin if found < 0 else begin + found + 1
    value = os.fsencode(mark)
    ctypes.memmove(at + len(variable) + 1, value, len(value))


def become_reaper() -> None:
    """Orphans below this process become its children."""
    import ctypes
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def receive_descriptors(connection: "socket.socket") -> "List[int]":
    """Those that came with the next packet; none at its end."""
    size = struct.calcsize("i")
    data, ancillary, _, _ = connection.recvmsg(PACKET, socket.CMSG_SPACE(DESCRIPTORS * size),
                                               getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not data:
        return []
    content = b"".join(part for level, kind, part in ancillary
                       if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS)
    return list(struct.unpack("%di" % (len(content) // size), content[:len(content) - len(content) % size]))


def send(connection: "socket.socket", message: "Dict[str, Any]") -> None:
    """As one packet; nothing where the other side is gone."""
    with contextlib.suppress(OSError):
        connection.send(json.dumps(message).encode("ascii"), getattr(socket, "MSG_NOSIGNAL", 0))


def close(descriptor: int) -> None:
    """One that may be closed already."""
    with contextlib.suppress(OSError):
        os.close(descriptor)
