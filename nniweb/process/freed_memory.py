"""What becomes of memory that a process that serves or works has freed: glibc keeps it, unless it is asked.

Each thread that finds the others at work gets a part of the heap of its own (an arena), up to eight for each processor,
and what is freed in one is used by no other. A page about ten thousand trials takes megabytes for a moment, each time
on another thread: without this a server grows for days, though it holds nothing more.

Where the C library is another one nothing is done: neither is there such a growth.
"""

import ctypes
import gc
import threading
from collections.abc import Callable
from functools import partial

from trainingservice.lasting_thread import LastingThread

#: Arenas: one for what computes, which is one thread at a time in Python, and one for those beside it.
ARENAS = 2
#: Seconds between two times that freed memory is given back. It takes some milliseconds, on a thread of its own.
EVERY = 20.0
#: Of ``mallopt``.
_M_ARENA_MAX = -8


def use_few_arenas() -> bool:
    """Call it before threads are started. Whether there is such a limit here."""
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, ARENAS))


def give_back() -> bool:
    """Give what is free back to the operating system, page by page. Whether that can be done here."""
    if (trim := _function("malloc_trim")) is None:
        return False
    trim(ctypes.c_size_t(0))
    return True


def give_back_regularly() -> None:
    """From now on, for as long as this process lives."""
    if _function("malloc_trim") is not None:
        never = threading.Event()
        LastingThread("freed-memory", partial(_give_back_until, never), stopping=never).start()


def _give_back_until(stopping: threading.Event) -> None:
    while not stopping.wait(EVERY):
        # what goes only with the collector (each answer to a page, half a megabyte) lies scattered among what stays
        gc.collect()
        give_back()


def _function(name: str) -> Callable[..., int] | None:
    """One of the C library's, None where it has none of this name."""
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return found
