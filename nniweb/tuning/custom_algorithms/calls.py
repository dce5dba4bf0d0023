"""Calls of the methods of a user's class: one after another, or each in a thread of its own (``multiThread``)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

#: So many seconds a call in a thread is waited for before the next one is made: nearly all calls end meanwhile, and are
#: then made in the order of the events.
PATIENCE = 0.05
#: The same while the history is replayed, where the order counts more than the time.
PATIENCE_OF_REPLAY = 10.0


class Calls:
    """For the main thread of the process. Without threads ``make`` raises what the call raises; with threads the next
    use of this object does.
    """

    def __init__(self, in_threads: bool) -> None:
        self.in_threads = in_threads
        self._patience = PATIENCE
        self._failures: list[BaseException] = []
        #: Threads that have not ended, by whether the end of the experiment waits for them.
        self._under_way: dict[threading.Thread, bool] = {}

    def make(self, call: Callable[[], object], *, is_awaited_at_the_end: bool = True) -> None:
        """Call. A proposal that blocks need not be waited for when the experiment ends; a result has to arrive."""
        if not self.in_threads:
            call()
            return
        self.raise_failure()
        thread = threading.Thread(target=self._run, args=(call,), name="call of the tuner", daemon=True)
        self._under_way = {known: awaited for known, awaited in self._under_way.items() if known.is_alive()}
        self._under_way[thread] = is_awaited_at_the_end
        thread.start()
        thread.join(self._patience)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what a call in a thread raised since the last time."""
        if self._failures:
            raise self._failures.pop(0)

    @property
    def are_under_way(self) -> bool:
        """Whether a thread has not ended: what it does may lead to further proposals."""
        return any(thread.is_alive() for thread in self._under_way)

    @contextlib.contextmanager
    def of_replay(self) -> Iterator[None]:
        """Calls made meanwhile are waited for longer."""
        self._patience = PATIENCE_OF_REPLAY
        try:
            yield
        finally:
            self._patience = PATIENCE

    def wait_for_the_end(self) -> None:
        """Return when the results that were told have arrived, however long that takes. Raises what a call raised."""
        for thread, is_awaited in list(self._under_way.items()):
            if is_awaited:
                thread.join()
        self.raise_failure()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # a tuner may also call sys.exit
            self._failures.append(error)
