"""A library that another one loads where it is installed, for something that this process does not do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_if_absent(name: str) -> Iterator[None]:
    """What is imported in the block finds no library ``name``, unless it is loaded already; afterwards it can be.

    For the time of start, while no other thread may import it.
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so Python's import refuses it
    try:
        yield
    finally:
        del sys.modules[name]
