"""Brings the chunks of one checkpoint to the server while it is still being read, on several connections where that
helps.

A server that answers quickly waits for its disk most of the time, so several chunks on their way are faster than one.
A slow way has one connection: more of them would only share it, and each chunk would take longer.
"""

import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from trialkeeper import chunk_pack, contract
from trialkeeper.server_connection import ServerConnection
from trialkeeper.shortage import is_shortage

#: Threads beside the one that reads the checkpoint: each has a connection, and one chunk in memory.
MOST_HELPERS = 3
#: Where a chunk takes fewer seconds than this, another connection is made.
QUICK = 1.0
#: So many chunks at least are asked about at once, unless they are the last.
ASKED_AT_ONCE = 16
#: A checkpoint with fewer chunks has no helpers.
_HELP_FROM = 3


class Place(NamedTuple):
    """Where a chunk is: in the file ``path`` below the folder of checkpoints, the ``number``-th, of ``size`` bytes."""

    path: str
    number: int
    size: int


class Upload:
    """``offer`` the chunks, then ``finish``, all on one thread. ``break_off`` may be called by any."""

    def __init__(self, connection: ServerConnection, ask: Callable[[ServerConnection, List[str]], List[str]],
                 send: Callable[[ServerConnection, str, Place], None],
                 new_connection: Optional[Callable[[], ServerConnection]],
                 clock: Callable[[], float] = time.monotonic,
                 send_several: Optional[Callable[[ServerConnection, List[Tuple[str, Place]]], None]] = None) -> None:
        """``ask`` says which chunks are missing, ``send`` sends one, ``send_several`` small ones in one request; all
        are called on several threads, each with a connection. ``new_connection`` None: there are no helpers.
        """
        self._connection, self._ask, self._send = connection, ask, send
        self._send_several = send_several
        self._new_connection, self._clock = new_connection, clock
        self._changed = threading.Condition()
        self._places: Dict[str, Place] = {}
        self._unasked: List[str] = []
        self._to_send: Deque[str] = deque()
        self._busy = self._helpers = 0
        self._is_complete = self._is_over = False
        self._error: Optional[BaseException] = None

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def helpers(self) -> int:
        """How many threads were started beside the one that reads."""
        return self._helpers

    def offer(self, sha256: str, place: Place) -> None:
        """A chunk was read. Raises what has broken the upload off."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if sha256 in self._places:
                return
            self._places[sha256] = place
            self._unasked.append(sha256)
            if len(self._unasked) >= ASKED_AT_ONCE:
                self._changed.notify()
        if self._new_connection is not None and len(self._places) >= _HELP_FROM and not self._helpers:
            self._helpers = 1
            self._start_helper()

    def finish(self) -> None:
        """All chunks were offered: help until the server has them. Raises what has broken the upload off."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()
        self._work(self._connection)
        if self._error is not None:
            raise self._error

    def send_again(self, hashes: Sequence[str]) -> None:
        """Send those that the server does not have after all. After ``finish``; raises as that does."""
        with self._changed:
            self._to_send.extend(sha256 for sha256 in hashes if sha256 in self._places)
        self.finish()

    def break_off(self) -> None:
        """Begin nothing more. Helpers end by themselves when they have their answers."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _start_helper(self) -> None:
        """Start one that is counted already."""
        assert self._new_connection is not None
        try:
            threading.Thread(target=self._help, args=(self._new_connection(),), name="checkpoints", daemon=True).start()
        except (RuntimeError, MemoryError) as error:  # no thread to spare: it goes without
            if not is_shortage(error):
                raise

    def _help(self, connection: ServerConnection) -> None:
        try:
            self._work(connection)
        finally:
            connection.close()

    def _work(self, connection: ServerConnection) -> None:
        """Ask and send until nothing is left for it. What goes wrong is kept for the thread that offers."""
        while True:
            asked, sent = self._next()
            if not asked and not sent:
                return
            missing: List[str] = []
            error: Optional[BaseException] = None
            begun = self._clock()
            try:
                if asked:
                    missing = self._ask(connection, asked)
                elif len(sent) > 1 and self._send_several is not None:
                    self._send_several(connection, [(sha256, self._places[sha256]) for sha256 in sent])
                else:
                    self._send(connection, sent[0], self._places[sent[0]])
            except BaseException as problem:
                error = problem
            with self._changed:
                for sha256 in missing:  # small ones side by side: those are sent together
                    is_small = self._places[sha256].size <= chunk_pack.SMALL_CHUNK
                    (self._to_send.appendleft if is_small else self._to_send.append)(sha256)
                self._error = self._error or error
                needs_help = (bool(sent) and error is None and self._clock() - begun < QUICK
                              and connection.way == "direct" and 0 < self._helpers < MOST_HELPERS
                              and len(self._to_send) + len(self._unasked) > self._helpers)
                self._helpers += needs_help
                self._changed.notify_all()
            try:
                if needs_help:
                    self._start_helper()
            finally:
                with self._changed:  # a helper that it started is there before the upload can be over
                    self._busy -= 1
                    self._changed.notify_all()

    def _next(self) -> Tuple[List[str], List[str]]:
        """What to ask about, or what to send; neither where all is done. Waits while others may find more to do."""
        with self._changed:
            while self._error is None and not self._is_over:
                if self._to_send:
                    self._busy += 1
                    return [], self._taken()
                if len(self._unasked) >= ASKED_AT_ONCE or (self._is_complete and self._unasked):
                    self._busy += 1
                    asked, self._unasked = (self._unasked[:contract.MAX_ASKED_CHUNKS],
                                            self._unasked[contract.MAX_ASKED_CHUNKS:])
                    return asked, []
                if self._is_complete and not self._busy:
                    break
                self._changed.wait()
            return [], []

    def _taken(self) -> List[str]:
        """What is sent next: one chunk, or several small ones. Under the lock."""
        taken = [self._to_send.popleft()]
        size = self._places[taken[0]].size
        if self._send_several is None or size > chunk_pack.SMALL_CHUNK:
            return taken
        while self._to_send and len(taken) < chunk_pack.MOST_CHUNKS:
            more = self._places[self._to_send[0]].size
            if more > chunk_pack.SMALL_CHUNK or size + more > chunk_pack.MOST_BYTES:
                break
            taken.append(self._to_send.popleft())
            size += more
        return taken
