"""Whether something failed because the machine has no thread, process or memory to give at the moment."""

import errno

#: What the system says where a limit on processes or memory is reached.
_ERRNOS = (errno.EAGAIN, errno.ENOMEM)
#: What Python says then of a thread. (While the interpreter ends it says more, and that does not pass.)
_NO_THREAD = "can't start new thread"


def is_shortage(error: object) -> bool:
    """True for what passes when others end: the same is to be tried again later. Of starts of threads and processes;
    elsewhere EAGAIN means something else.
    """
    if isinstance(error, OSError):
        return error.errno in _ERRNOS
    return isinstance(error, MemoryError) or isinstance(error, RuntimeError) and str(error) == _NO_THREAD
