"""A few threads for calls that may hang. Daemons: unlike a ThreadPoolExecutor's, they never hold up an exit."""

import queue
import threading
import time
from collections.abc import Callable

from trainingservice.secrets_in_use import with_secrets_of_now


class CallThreads:
    """Runs what is handed over, in order, on up to ``size`` threads that start when they are needed."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._guard = threading.Lock()
        self._closed = False

    def submit(self, call: Callable[[], None]) -> bool:
        """Run ``call``, which must not raise, soon, as a part of the work that hands it over. False after ``close``."""
        call = with_secrets_of_now(call)
        with self._guard:
            if self._closed:
                return False
            self._queue.put(call)
            if self._queue.qsize() > self._idle and len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            return True

    def close(self) -> None:
        """Take nothing more; what was handed over is still run."""
        with self._guard:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait until the threads have ended, at most ``timeout`` seconds in all."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while True:
            with self._guard:
                self._idle += 1
            call = self._queue.get()
            with self._guard:
                self._idle -= 1
            if call is None:
                return
            call()
