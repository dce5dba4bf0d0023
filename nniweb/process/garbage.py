"""How much time a process spends on looking for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: So many more objects than went by themselves, and Python looks through the newest (without this: 700). A report or a
#: page makes hundreds, nearly all of which go when it is answered.
NEW_OBJECTS = 10_000


def do_not_look() -> None:
    """Call it before modules are loaded, which make half a million objects that stay; ``look_seldom`` ends it."""
    gc.disable()


def look_seldom() -> None:
    """From now on, in this process."""
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()


def leave_alone_what_is_loaded() -> None:
    """Call it when modules were loaded: what is there stays as long as the process, and is never looked through, when
    the process ends neither.
    """
    gc.freeze()
    look_seldom()


@contextmanager
def loading() -> Iterator[None]:
    """What is made inside stays as long as the process."""
    do_not_look()
    try:
        yield
    finally:
        leave_alone_what_is_loaded()
