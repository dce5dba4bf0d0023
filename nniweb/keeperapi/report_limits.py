"""How much one trial's keeper may send, so that one that floods does not keep the others waiting.

Each keeper (a job and its token) has a bucket of calls and one of bytes that fill steadily; one that is empty answers
429 and says when to come again, which keepers obey: they send the same entries later, in fewer and larger reports.
Whoever comes with tokens that open nothing shares the bucket of their address, and never that of the job they name.
Per process; used on the event loop, and thread-safe.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

#: A bucket holds what comes in so many seconds: a burst of that size is nothing special.
BURST_SECONDS = 10.0
#: Calls with wrong tokens that one address may make in a second, unless it is at less than its burst.
REFUSED_A_SECOND, REFUSED_BURST = 50.0, 500.0
#: A bucket that was not used for so many seconds is forgotten: it is full again, and its keeper, which speaks each ten
#: seconds, has probably ended.
FORGET_AFTER = 60.0
#: Buckets that are remembered at most; the longest unused ones are forgotten first, which fills them.
MOST_BUCKETS = 20_000

Key = TypeVar("Key")
#: A job's name (of code: the experiment's id) and the hash of the token.
Caller = tuple[str, str]


@dataclass(slots=True)
class _Bucket:
    calls: float
    bytes: float
    at: float
    #: Whether the token opened something: then the calls are no longer counted for the address.
    is_known: bool = False


class ReportLimits:
    """``calls`` and ``mega_bytes``: what one keeper may send each second; 0: as much as it likes."""

    def __init__(self, calls: float, mega_bytes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls, self._bytes, self._clock = calls, mega_bytes * 1e6, clock
        self._callers: OrderedDict[Caller, _Bucket] = OrderedDict()
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def seconds_to_wait(self, caller: Caller, address: str) -> float:
        """0 where the call may go on, which is counted; else after how many seconds it may come again."""
        now = self._clock()
        with self._lock:
            bucket = self._bucket(self._callers, caller, now, self._calls, self._calls * BURST_SECONDS)
            if not bucket.is_known:
                refused = self._bucket(self._addresses, address, now, REFUSED_A_SECOND, REFUSED_BURST)
                if refused.calls < 1:
                    return (1 - refused.calls) / REFUSED_A_SECOND
            waits = [0.0]
            if self._calls and bucket.calls < 1:
                waits.append((1 - bucket.calls) / self._calls)
            if self._bytes and bucket.bytes < 0:
                waits.append(-bucket.bytes / self._bytes)
            if max(waits) == 0:
                bucket.calls -= 1
            return max(waits)

    def sent(self, caller: Caller, size: int) -> None:
        """So many bytes came. They may be more than were left: then the next call waits for longer."""
        with self._lock:
            if (bucket := self._callers.get(caller)) is not None:
                bucket.bytes -= size

    def answered(self, caller: Caller, address: str, status: int) -> None:
        """How it was answered, which tells whether the token opens anything."""
        with self._lock:
            if status in (401, 404):
                if (bucket := self._addresses.get(address)) is not None:
                    bucket.calls -= 1
            elif status < 500 and status not in (400, 405, 413, 429) and (known := self._callers.get(caller)):
                known.is_known = True

    def _bucket(self, buckets: OrderedDict[Key, _Bucket], key: Key, now: float, rate: float, burst: float) -> _Bucket:
        """The bucket as it is now."""
        bucket = buckets.get(key)
        if bucket is None:
            bucket = buckets[key] = _Bucket(burst, self._bytes * BURST_SECONDS, now)
            # in the order of their last use; two at most, so that no call pays for many and more go than come
            for _ in range(2):
                oldest = next(iter(buckets))
                if len(buckets) <= MOST_BUCKETS and not self._is_over(buckets[oldest], now):
                    break
                del buckets[oldest]
        buckets.move_to_end(key)
        passed = max(0.0, now - bucket.at)
        bucket.calls = min(burst, bucket.calls + passed * rate)
        bucket.bytes = min(self._bytes * BURST_SECONDS, bucket.bytes + passed * self._bytes)
        bucket.at = now
        return bucket

    def _is_over(self, bucket: _Bucket, now: float) -> bool:
        """Whether it was not used for long, and owes no bytes any more."""
        unused = now - bucket.at
        return unused > FORGET_AFTER and (not self._bytes or bucket.bytes + unused * self._bytes >= 0)
