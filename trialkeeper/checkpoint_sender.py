"""Sends checkpoints to the server, on a thread and a connection of its own: metrics do not wait for them.

What the server has already is not sent. A checkpoint whose sending was broken off goes on where it was, because its
chunks are there then.
"""

import io
import json
import threading
import time
from typing import Callable, List, NamedTuple, Optional
from urllib.parse import quote

from trialkeeper import contract
from trialkeeper.access import Access
from trialkeeper.checkpoint_cut import CutCheckpoint, cut, read_chunk
from trialkeeper.checkpoint_entry import Problem
from trialkeeper.reporter import OwnInstallation, pause_after
from trialkeeper.server_connection import Answer, Body, ServerAway, ServerConnection

#: How often a manifest is sent of which the server says that chunks are missing.
_MANIFESTS = 3


class ToSend(NamedTuple):
    """``folder``: where it is read from."""

    k: int
    name: str
    step: Optional[int]
    folder: str
    sequence: int


class Sent(NamedTuple):
    """How sending ended: ``checkpoint`` is with the server, or ``problem`` says why not; neither: nobody wants it."""

    what: ToSend
    checkpoint: Optional[CutCheckpoint]
    problem: Optional[Problem]


class _Gone(Exception):
    """The server does not want the attempt any more."""


class _Stopped(Exception):
    pass


class CheckpointSender:
    """``send`` and the rest may be called from any thread; the work is done by ``run``, on a thread of its own."""

    def __init__(self, access: Access, job_name: str, own: OwnInstallation, document: contract.CheckpointsDocument,
                 known: Callable[[str], bool], done: Callable[[Sent], None], log: Callable[[str], None], *,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """``known(id)``: whether this attempt has told it before. ``done`` is called on the sending thread."""
        self._connection = ServerConnection(access)
        self._path = "trials/%s/" % quote(job_name, safe="")
        self._own, self._known, self._done, self._log, self._clock = own, known, done, log, clock
        self._most_bytes = document.get("max_bytes", 2 ** 62)
        self._rate = document.get("bytes_per_second")
        self._changed = threading.Condition()
        self._waiting: Optional[ToSend] = None
        self._current: Optional[ToSend] = None
        self._stopped = False
        #: When something was sent, or answered, last.
        self.moved_at = clock()

    @property
    def is_busy(self) -> bool:
        with self._changed:
            return self._waiting is not None or self._current is not None

    def send(self, what: ToSend) -> Optional[ToSend]:
        """Have it sent next. The one that waited, if one did: the newer takes its place."""
        with self._changed:
            replaced, self._waiting = self._waiting, what
            self.moved_at = self._clock()
            self._changed.notify()
            return replaced

    def stop(self) -> None:
        """End the thread; what is under way is broken off."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        while True:
            with self._changed:
                while self._waiting is None and not self._stopped:
                    self._changed.wait(60.0)
                if self._stopped:
                    break
                self._current, self._waiting = self._waiting, None
            assert self._current is not None
            sent = self._send(self._current)
            if sent is None:
                break
            self._done(sent)
            with self._changed:
                self._current = None
        self._connection.close()

    def _send(self, what: ToSend) -> Optional[Sent]:
        try:
            checkpoint = cut(what.folder, what.name, self._most_bytes)
            if not self._known(checkpoint.id):
                self._send_all(what, checkpoint)
            return Sent(what, checkpoint, None)
        except Problem as problem:
            return Sent(what, None, problem)
        except _Gone:
            return Sent(what, None, None)
        except _Stopped:
            return None
        except Exception as error:  # a bug of ours: the trial must not suffer from it
            self._log("a checkpoint could not be sent: %s: %s" % (type(error).__name__, error))
            return Sent(what, None, Problem(contract.UNREADABLE, "%s: %s" % (type(error).__name__, error)))

    def _send_all(self, what: ToSend, checkpoint: CutCheckpoint) -> None:
        hashes = list(dict.fromkeys(chunk for file in checkpoint.manifest["files"] for chunk in file["chunks"]))
        missing = set(self._missing(hashes))
        for _ in range(_MANIFESTS):
            self._send_chunks(what, checkpoint, missing)
            answer = self._call("PUT", "checkpoints/" + checkpoint.id, checkpoint.text)
            if answer.status != 409:
                self._must_be_taken(answer)
                return
            missing = set(_hashes(answer, hashes))
        raise Problem(contract.NOT_TAKEN, "the server says again and again that chunks are missing")

    def _missing(self, hashes: List[str]) -> List[str]:
        missing: List[str] = []
        for first in range(0, len(hashes), contract.MAX_ASKED_CHUNKS):
            asked = hashes[first:first + contract.MAX_ASKED_CHUNKS]
            answer = self._call("POST", "chunks/missing", json.dumps({"hashes": asked}).encode("ascii"))
            self._must_be_taken(answer)
            missing += _hashes(answer, asked)
        return missing

    def _send_chunks(self, what: ToSend, checkpoint: CutCheckpoint, missing: "set[str]") -> None:
        began, sent = self._clock(), 0
        for file in checkpoint.manifest["files"]:
            for number, chunk in enumerate(file["chunks"]):
                if chunk not in missing:
                    continue
                content = read_chunk(what.folder, what.name, file, number)
                answer = self._call("PUT", "chunks/" + chunk, content)
                if answer.status == 400:  # it has another hash than it had
                    raise Problem(contract.CHANGED, what.name)
                self._must_be_taken(answer)
                missing.discard(chunk)
                sent += len(content)
                if self._rate:
                    self._wait(sent / self._rate - (self._clock() - began))

    def _call(self, method: str, path: str, body: bytes) -> Answer:
        """The server's answer. Tries until there is one. Raises _Gone, _Stopped."""
        failures = 0
        while True:
            with self._changed:
                if self._stopped:
                    raise _Stopped
            try:
                answer = self._connection.call(method, self._path + path, self._counts, _uncompressed(body),
                                               {"Content-Type": "application/octet-stream",
                                                "Content-Length": str(len(body))})
            except ServerAway as away:
                if not failures:
                    self._log("a checkpoint cannot be sent now: %s" % away)
                self._wait(max(pause_after(failures), away.retry_after))
                failures += 1
                continue
            self.moved_at = self._clock()
            if answer.status == 410:
                raise _Gone
            return answer

    def _counts(self, answer: Answer) -> str:
        if answer.status in (401, 429) or answer.status >= 500:
            return "answered %d%s" % (answer.status, ": %.200s" % answer.document.get("message", ""))
        return self._own.refuses(answer)

    @staticmethod
    def _must_be_taken(answer: Answer) -> None:
        if answer.status != 200:
            raise Problem(contract.NOT_TAKEN, str(answer.document.get("message") or "the server answered %d"
                                                  % answer.status))

    def _wait(self, seconds: float) -> None:
        until = self._clock() + seconds
        with self._changed:
            while not self._stopped and self._clock() < until:
                self._changed.wait(until - self._clock())


def _hashes(answer: Answer, asked: List[str]) -> List[str]:
    """Those of the asked ones that the answer names as missing."""
    missing = answer.document.get("missing")
    named = {one for one in missing if isinstance(one, str)} if isinstance(missing, list) else set()
    return [one for one in asked if one in named]


def _uncompressed(body: bytes) -> Body:
    """As a stream, which is not compressed: weights do not get smaller."""
    return io.BytesIO(body)
