"""A limit of the processor time of one thing, whatever else the process that runs the tests does."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    """Of the calling thread alone: other tests may have left threads and garbage, and looking through all that this
    process has may take a second.
    """
    gc.disable()
    began = time.thread_time()
    try:
        yield
        took = time.thread_time() - began
    finally:
        gc.enable()
    assert took < seconds
