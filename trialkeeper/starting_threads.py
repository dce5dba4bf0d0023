"""Threads that are started at once or, where the machine has none to spare now, as soon as it has.

A limit on processes counts threads (``ulimit -u``, a container's or a unit's), and one on memory refuses their stacks.
Others end, and then there is room again: nothing is lost by waiting, so a start that fails is tried again.
"""

import random
import threading
import time
from typing import Any, Callable, List, Tuple

from trialkeeper.back_off import back_off
from trialkeeper.shortage import is_shortage

#: Seconds of the shortest and the longest pause between two tries.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 15.0

Target = Callable[[], Any]


def pause_after(failures: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds after so many failures in a row: growing, and not the same for all who wait for the same room."""
    return back_off(failures, (SHORTEST_PAUSE, LONGEST_PAUSE), chance())


def start_thread(name: str, target: Target) -> None:
    """Raises RuntimeError or MemoryError where there is none to spare."""
    threading.Thread(target=target, name=name, daemon=True).start()


class StartingThreads:
    """For one thread, which calls ``retry`` again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: monotonic seconds."""
        self._clock = clock
        self._waiting: List[Tuple[str, Target]] = []
        self._failures = 0
        self._next_try = 0.0

    @property
    def is_short(self) -> bool:
        """Whether a thread waits to be started."""
        return bool(self._waiting)

    def start(self, name: str, target: Target) -> None:
        """Start it now or later."""
        self._waiting.append((name, target))
        if len(self._waiting) == 1:
            self._next_try = 0.0
            self.retry()

    def forget(self, name: str) -> bool:
        """Do not start it any more. Whether it waited."""
        before = len(self._waiting)
        self._waiting = [each for each in self._waiting if each[0] != name]
        return len(self._waiting) < before

    def retry(self) -> None:
        """Start what waits, in order, if it is time."""
        if not self._waiting or self._clock() < self._next_try:
            return
        while self._waiting:
            try:
                start_thread(*self._waiting[0])
            except (RuntimeError, MemoryError) as error:
                if not is_shortage(error):
                    raise
                self._next_try = self._clock() + pause_after(self._failures)
                self._failures += 1
                return
            del self._waiting[0]
        self._failures = 0

    def seconds_left(self) -> float:
        """Until the next try; infinite where nothing waits."""
        return max(0.0, self._next_try - self._clock()) if self._waiting else float("inf")


class Room:
    """A thread that does nothing: it holds the room that a process is about to need, so that nobody else takes it."""

    def __init__(self) -> None:
        self._given_up, self._ended = threading.Event(), threading.Event()

    def hold(self) -> None:
        """What the thread does."""
        self._given_up.wait()
        self._ended.set()

    def give_up(self) -> None:
        """Let go of it, for what is started next. The thread must have been started. Harmless when repeated."""
        self._given_up.set()
        self._ended.wait(1.0)
