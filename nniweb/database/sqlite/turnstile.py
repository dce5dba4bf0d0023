"""A lock that serves its callers in the order in which they came."""

import threading
from collections import deque


class Turnstile:
    """First come, first served, unlike ``threading.Lock``, which lets a busy thread starve the others."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def acquire(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # released by the one before us, who leaves the turnstile taken for us

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
