"""How much one trial's keeper may send, so that one that floods does not keep the others waiting.

Each keeper (a job and its token) has a bucket of calls and one of bytes that fill steadily; one that is empty answers
429 and says when to come again, which keepers obey: they send the same entries later, in fewer and larger reports.
Whoever comes with tokens that open nothing shares the bucket of their address, and never that of the job they name.
Per process; used on the event loop, and thread-safe.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from nniweb.process.counted_address import counted_as
from nniweb.process.token_bucket import TokenBucket
from trainingservice.receiver.report_reading import RefusedReport
from trialkeeper import contract

#: A bucket holds what comes in so many seconds: a burst of that size is nothing special.
BURST_SECONDS = 10.0
#: Calls with wrong tokens that one address may make in a second, unless it is at less than its burst.
REFUSED_A_SECOND, REFUSED_BURST = 50.0, 500.0
#: A sender that was not heard for so many seconds is forgotten: its buckets are full again, and a keeper has ended or
#: is one of many quiet ones.
FORGET_AFTER = 60.0
#: Large bodies of one sender that may come at once: each is in memory until it is whole, and keepers send one. What was
#: cut off on its way takes a while to be noticed.
MOST_BODIES = 3
#: Senders that are remembered at most, and as many of whom it is not known yet whether their tokens open anything; the
#: longest unused ones are forgotten first, which fills their buckets.
MOST_SENDERS = 20_000

Key = TypeVar("Key")
#: A job's name (of code: the experiment's id) and the hash of the token.
Caller = tuple[str, str]


@dataclass(slots=True)
class _Sender:
    calls: TokenBucket
    bytes: TokenBucket
    used_at: float


class ReportLimits:
    """``calls`` and ``mega_bytes``: what one keeper may send each second; 0: as much as it likes."""

    def __init__(self, calls: float, mega_bytes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls, self._bytes, self._clock = calls, mega_bytes * 1e6, clock
        #: Those whose token opened something: their calls are no longer counted for the address.
        self._callers: OrderedDict[Caller, _Sender] = OrderedDict()
        #: All others, apart: however many tokens somebody makes up, no keeper is forgotten for them.
        self._strangers: OrderedDict[Caller, _Sender] = OrderedDict()
        self._addresses: OrderedDict[str, _Sender] = OrderedDict()
        self._bodies: dict[Caller, int] = {}
        self._lock = threading.Lock()

    def seconds_to_wait(self, caller: Caller, address: str) -> float:
        """0 where the call may go on, which is counted; else after how many seconds it may come again."""
        now = self._clock()
        with self._lock:
            senders = self._callers if caller in self._callers else self._strangers
            if senders is self._strangers:
                refused = self._sender(self._addresses, counted_as(address), now, REFUSED_A_SECOND, REFUSED_BURST)
                if seconds := refused.calls.wait():
                    return seconds
            sender = self._sender(senders, caller, now, self._calls, self._calls * BURST_SECONDS)
            seconds = max(sender.calls.wait() if self._calls else 0.0, sender.bytes.wait(0.0) if self._bytes else 0.0)
            if not seconds:
                sender.calls.spend(1)
            return seconds

    @contextmanager
    def large_body(self, caller: Caller) -> Iterator[None]:
        """While a large body of this sender comes and is used. Raises RefusedReport where too many do."""
        with self._lock:
            others = self._bodies.get(caller, 0)
            if others >= MOST_BODIES:
                raise RefusedReport(429, contract.ERROR_BUSY, "This keeper sends several large requests already.",
                                    retry_after=2)
            self._bodies[caller] = others + 1
        try:
            yield
        finally:
            with self._lock:
                self._bodies[caller] -= 1
                if not self._bodies[caller]:
                    del self._bodies[caller]

    def knows(self, caller: Caller) -> bool:
        """Whether this token has opened something of this job, not long ago."""
        with self._lock:
            return caller in self._callers

    def sent(self, caller: Caller, size: int) -> None:
        """So many bytes came. They may be more than were left: then the next call waits for longer."""
        with self._lock:
            if (sender := self._callers.get(caller) or self._strangers.get(caller)) is not None:
                sender.bytes.spend(size)

    def answered(self, caller: Caller, address: str, status: int) -> None:
        """How it was answered, which tells whether the token opens anything."""
        with self._lock:
            # what is wrong in itself is refused before the token is looked at
            if status in (401, 404) or status in (400, 405, 413) and caller not in self._callers:
                if (sender := self._addresses.get(counted_as(address))) is not None:
                    sender.calls.spend(1)
            elif status < 500 and status not in (400, 405, 413, 429) and (known := self._strangers.pop(caller, None)):
                self._callers[caller] = known
                self._forget_old(self._callers, known.used_at)

    def _sender(self, senders: OrderedDict[Key, _Sender], key: Key, now: float, rate: float, burst: float) -> _Sender:
        """The sender, which is used now."""
        sender = senders.get(key)
        if sender is None:
            sender = senders[key] = _Sender(TokenBucket(rate, burst, self._clock), TokenBucket(
                self._bytes, self._bytes * BURST_SECONDS, self._clock), now)
            self._forget_old(senders, now)
        senders.move_to_end(key)
        sender.used_at = now
        return sender

    def _forget_old(self, senders: OrderedDict[Key, _Sender], now: float) -> None:
        """When one has come. They are in the order of their last use; two go at most, so that no call pays for many and
        more go than come.
        """
        for _ in range(2):
            oldest = next(iter(senders))
            if len(senders) <= MOST_SENDERS and not self._is_over(senders[oldest], now):
                break
            del senders[oldest]

    def _is_over(self, sender: _Sender, now: float) -> bool:
        """Whether it was not used for long, and owes no bytes any more."""
        return now - sender.used_at > FORGET_AFTER and not (self._bytes and sender.bytes.wait(0.0))
