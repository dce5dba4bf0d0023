"""How much time a process that serves or works spends on looking for garbage."""

import gc

#: So many more objects than went by themselves, and Python looks through the newest (without this: 700). A report or a
#: page makes hundreds, nearly all of which go when it is answered.
NEW_OBJECTS = 10_000


def look_seldom() -> None:
    """Call it when all modules are loaded: what is there stays as long as the process, and is never looked through."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
