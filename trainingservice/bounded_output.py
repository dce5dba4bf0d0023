"""What a program writes that belongs to somebody else: read up to a bound of bytes and of time."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

#: Of what a program complains so many bytes at its end are kept.
COMPLAINT_BYTES = 64 * 1024
_PIECE = 64 * 1024
#: How often ``give_up`` is asked, in seconds.
_ASKED_EVERY = 0.5


@dataclass(frozen=True)
class Output:
    """What a program wrote. Only where ``cut`` is "" is it the whole of it, and has the program ended."""

    output: bytes
    complaint: bytes
    cut: Literal["", "time", "size", "given up"] = ""


def communicate(process: subprocess.Popen[bytes], content: bytes = b"", seconds: float = float("inf"),
                most_bytes: int = 16 * 1024 * 1024, give_up: Callable[[], bool] = lambda: False) -> Output:
    """As ``Popen.communicate``, but no more than ``most_bytes`` of its output is held.

    Blocking, for ``seconds`` at most. The pipes are closed afterwards. A program that is cut short is not ended here:
    who may end it depends on whose it is.
    """
    until = time.monotonic() + seconds
    kept: dict[int, bytearray] = {}
    with contextlib.ExitStack() as pipes, selectors.DefaultSelector() as selector:
        for pipe, event in ((process.stdout, selectors.EVENT_READ), (process.stderr, selectors.EVENT_READ),
                            (process.stdin, selectors.EVENT_WRITE)):
            if pipe is not None:
                pipes.callback(_close, pipe)
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, event)
                kept[pipe.fileno()] = bytearray()
        output = kept[process.stdout.fileno()] if process.stdout is not None else bytearray()
        complaint = kept[process.stderr.fileno()] if process.stderr is not None else bytearray()
        left = memoryview(content)
        while selector.get_map():
            if (wait := until - time.monotonic()) <= 0:
                return Output(bytes(output), bytes(complaint), "time")
            if give_up():
                return Output(bytes(output), bytes(complaint), "given up")
            for key, _ in selector.select(min(wait, _ASKED_EVERY)):
                if key.fileobj is process.stdin:
                    left = _written(key.fd, left)
                    finished = not left
                else:
                    piece = os.read(key.fd, _PIECE)
                    kept[key.fd] += piece
                    finished = not piece
                if finished:
                    selector.unregister(key.fileobj)
                    _close(key.fileobj)
            if len(output) > most_bytes:
                return Output(bytes(output[:most_bytes]), bytes(complaint), "size")
            if len(complaint) > COMPLAINT_BYTES:
                del complaint[:-COMPLAINT_BYTES]
    try:
        process.wait(None if until == float("inf") else max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Output(bytes(output), bytes(complaint), "time")
    return Output(bytes(output), bytes(complaint))


def _written(descriptor: int, left: memoryview) -> memoryview:
    """What is still to be written; nothing where the program does not want it."""
    if not left:
        return left
    try:
        return left[os.write(descriptor, left[:_PIECE]):]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def _close(pipe: object) -> None:
    with contextlib.suppress(OSError):
        pipe.close()  # type: ignore[attr-defined]
