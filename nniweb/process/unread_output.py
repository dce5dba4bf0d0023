"""Output of this process that nobody reads any more."""

import contextlib
import os
from typing import TextIO


def into_nothing(stream: TextIO) -> None:
    """Have what is written to the stream from now on, and what is left of before, go nowhere. Never raises OSError.

    Else the interpreter, which flushes it at the end, would complain and change the exit status.
    """
    with contextlib.suppress(OSError):  # a stream without a descriptor
        number = stream.fileno()
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
