"""A few threads for calls that may hang. Daemons: unlike a ThreadPoolExecutor's, they never hold up an exit."""

import logging
import queue
import threading
import time
from collections.abc import Callable

from trainingservice.secrets_in_use import with_secrets_of_now

logger = logging.getLogger(__name__)


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
        """Run ``call``, which must not raise, soon, as a part of the work that hands it over. False after ``close``.

        Raises RuntimeError or MemoryError, and keeps nothing, where there is no thread yet and none can be started.
        """
        call = with_secrets_of_now(call)
        with self._guard:
            if self._closed:
                return False
            if self._queue.qsize() >= self._idle and len(self._threads) < self._size:
                self._add_thread()
            self._queue.put(call)
            return True

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            if not self._threads:
                raise
            logger.warning("%s: no more threads can be started; calls wait for the %d existing ones", self._name,
                           len(self._threads))
        else:
            self._threads.append(thread)

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
            try:
                call()
            except BaseException:  # of what must not raise; the calls behind it wait for this thread
                logger.exception("%s: a call has failed", self._name)
