"""Calls into a platform while somebody waits for the page: bounded, whatever a plug-in does.

A call runs on a daemon thread of its own and is given up when its time is over; the thread is left to itself, since
nothing can end it. A platform with several calls that never came back gets no more of them.
"""

import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: Seconds for what is done before a launch, and for a full rehearsal.
BRIEF, PATIENT = 30.0, 300.0
NO_ROOM = ("the server's machine has no thread, process or memory to spare at the moment. Try again later; if it "
           "happens each time, raise its limits (ulimit -u, TasksMax=) or end what takes so many.")
#: So many calls of one platform may hang at a time in this process.
MOST_HANGING = 4

_Result = TypeVar("_Result")
_hanging: Counter[str] = Counter()
_guard = threading.Lock()


def ask_new_service(platform: str, build: Callable[[], TrainingService], question: Callable[[TrainingService], _Result],
                    seconds: float) -> _Result:
    """Put a question to a service object that is made for it and closed afterwards. As ``ask_platform``."""
    def call() -> _Result:
        service = build()
        try:
            return question(service)
        finally:
            service.clean_up()

    return ask_platform(platform, call, seconds)


def ask_platform(platform: str, call: Callable[[], _Result], seconds: float) -> _Result:
    """What ``call`` returns or raises. It sees no transaction of the caller's: it runs on another thread.

    Raises TemporaryError where it does not come back in time, and for what only a defect of the platform raises.
    """
    with _guard:
        if _hanging[platform] >= MOST_HANGING:
            raise TemporaryError(f"{MOST_HANGING} calls of the platform {platform} have not come back, so it is not "
                                 "called again before one does. Tell who looks after the server: it is the platform's "
                                 "defect, and a restart of the server ends these calls.")
    results: list[_Result] = []
    errors: list[BaseException] = []
    is_over, is_given_up = threading.Event(), threading.Event()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as error:  # also what would end a program: it is told to who waits
            errors.append(error)
        finally:
            connections.close_all()  # this thread's: a plug-in may have looked into the book of GPUs
        with _guard:
            is_over.set()
            if is_given_up.is_set():
                _hanging[platform] -= 1

    try:
        threading.Thread(target=run, name=f"call of {platform}", daemon=True).start()
    except (RuntimeError, MemoryError):
        raise TemporaryError(f"The platform {platform} cannot be asked: {NO_ROOM}") from None
    if not is_over.wait(seconds):
        with _guard:
            if not is_over.is_set():
                is_given_up.set()
                _hanging[platform] += 1
                logger.error("a call of the platform %s has not come back within %.0f s and is left to itself",
                             platform, seconds)
                raise TemporaryError(f"The platform {platform} has not answered within {seconds:.0f} s. Try again; if "
                                     "it happens each time, see whether its cluster can be reached from the server.")
    for error in errors:
        if isinstance(error, TrainingServiceError):
            raise error
        if is_shortage(error):
            raise TemporaryError(f"The platform {platform} cannot be asked: {NO_ROOM}") from error
        logger.error("the platform %s failed", platform, exc_info=error)
        raise TemporaryError(f"The platform {platform} failed: {type(error).__name__}: {error}. It is the platform's "
                             "defect; the server's log has more.") from error
    return results[0]
