"""After a trial's end: what it left is delivered, until the server has all or the keeper is told to end."""

from typing import Callable, Optional

from trialkeeper.inbox import Inbox
from trialkeeper.reporter import THREAD, Reporter
from trialkeeper.wakeups import Wakeups

#: Seconds a keeper whose trial has ended goes on trying after SIGTERM.
LAST_TRIES = 10.0


def deliver(reporter: Reporter, wakeups: Wakeups, inbox: Inbox, signals: int, *, log: Callable[[str], None],
            clock: Callable[[], float]) -> None:
    """Until the server has all, or the keeper is told to end by a signal after the first so many (``signals``)."""
    last_tries = _LastTries(wakeups, clock)
    reporter.finish()
    if wakeups.threads.forget(THREAD):
        log("there is no room for a thread: delivering without one")
        last_tries.begin_after(len(wakeups.stop_signals))
        reporter.deliver_here(last_tries.are_over)
        return
    last_tries.begin_after(signals)
    while inbox.done is None and inbox.claimed is None:
        inbox.wait(last_tries.left())
        if last_tries.are_over():
            log("told to end: what is not delivered stays in the journal")
            break
    reporter.stop()


class _LastTries:
    def __init__(self, wakeups: Wakeups, clock: Callable[[], float]) -> None:
        self._wakeups, self._clock = wakeups, clock
        self._signals = 0
        self._until: Optional[float] = None

    def begin_after(self, signals: int) -> None:
        """The time runs from the next signal after so many."""
        self._signals = signals

    def are_over(self) -> bool:
        if self._until is None and len(self._wakeups.stop_signals) > self._signals:
            self._until = self._clock() + LAST_TRIES
        return self._until is not None and self._clock() >= self._until

    def left(self) -> float:
        """Seconds to wait at most."""
        return 60.0 if self._until is None else self._until - self._clock()
