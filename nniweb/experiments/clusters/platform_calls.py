"""Calls into a platform while somebody waits for the page: bounded, whatever a plug-in does.

A call runs on a daemon thread of its own and is given up when its time is over; the thread is left to itself, since
nothing can end it. A platform with several calls that never came back gets no more of them. Each person has a share:
so many calls at a time, and so many that hang, so that nobody uses up what there is for all.
"""

import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

from nniweb.experiments.access.request_actor import asking
from trainingservice.base import TrainingService
from trainingservice.errors import TemporaryError, TrainingServiceError
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

#: Seconds for what is done before a launch, and for a full rehearsal; more than REHEARSAL_SECONDS of platforms.
BRIEF, PATIENT = 30.0, 300.0
NO_ROOM = ("the server's machine has no thread, process or memory to spare at the moment. Try again later. If this "
           "happens each time, raise the machine's limits (ulimit -u, TasksMax=) or end programs that use too many "
           "threads.")
#: So many calls of one platform may hang at a time in this process, and so many of one person.
MOST_HANGING, MOST_HANGING_OF_PERSON = 16, 2
#: So many calls one person may have under way at a time in this process, those that hang apart.
MOST_OF_PERSON = 6

_Result = TypeVar("_Result")
_Key = TypeVar("_Key")
#: Platform and person (primary key; None: nobody asks) -> calls that were given up and have not come back.
_hanging: Counter[tuple[str, int | None]] = Counter()
#: Person -> calls that are waited for.
_under_way: Counter[int | None] = Counter()
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


def ask_platform(platform: str, call: Callable[[], _Result], seconds: float, *, is_last: bool = False) -> _Result:
    """What ``call`` returns or raises. It sees no transaction of the caller's: it runs on another thread.

    ``is_last``: it closes what calls before it have opened, so it is not refused for its person's share. Raises
    TemporaryError where it does not come back in time, and for what only a defect of the platform raises.
    """
    now = asking()
    person = now.person.pk if now is not None and now.person is not None else None
    with _guard:
        _refuse_too_many(platform, None if is_last else person)
        _under_way[person] += 1
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
                _less(_hanging, (platform, person))
            else:
                _less(_under_way, person)

    try:
        threading.Thread(target=run, name=f"call of {platform}", daemon=True).start()
    except (RuntimeError, MemoryError):
        with _guard:
            _less(_under_way, person)
        raise TemporaryError(f"The platform {platform} cannot be asked: {NO_ROOM}") from None
    if not is_over.wait(seconds):
        with _guard:
            if not is_over.is_set():
                is_given_up.set()
                _less(_under_way, person)
                _hanging[platform, person] += 1
                logger.error("a call of the platform %s has not returned within %.0f s; it continues in its thread, "
                             "and its result is not used",
                             platform, seconds)
                raise TemporaryError(f"The platform {platform} has not answered within {seconds:.0f} s. Try again. If "
                                     "this happens each time, check that its cluster can be reached from the server.")
    for error in errors:
        if isinstance(error, TrainingServiceError):
            raise error
        if is_shortage(error):
            raise TemporaryError(f"The platform {platform} cannot be asked: {NO_ROOM}") from error
        logger.error("the platform %s failed", platform, exc_info=error)
        raise TemporaryError(f"The platform {platform} failed: {type(error).__name__}: {error}. This is a defect in "
                             "the code of the platform. The server's log has the traceback.") from error
    return results[0]


def _refuse_too_many(platform: str, person: int | None) -> None:
    """Raises TemporaryError where a call must wait for others to end."""
    of_platform = sum(count for (name, _), count in _hanging.items() if name == platform)
    of_person = sum(count for (_, who), count in _hanging.items() if who == person)
    if of_platform >= MOST_HANGING or (person is not None and of_person >= MOST_HANGING_OF_PERSON):
        whose, count = ("calls", of_platform) if of_platform >= MOST_HANGING else ("of your calls", of_person)
        raise TemporaryError(f"{count} {whose} to the platform {platform} have not returned, so it is not called again "
                             "until one returns. Tell an administrator: this is a defect in the code of the platform, "
                             "and a restart of the server ends these calls.")
    if person is not None and _under_way[person] >= MOST_OF_PERSON:
        raise TemporaryError(f"{MOST_OF_PERSON} of your calls to platforms are in progress, which is the maximum per "
                             "person. Try again when one has returned.")


def _less(counter: "Counter[_Key]", key: "_Key") -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
