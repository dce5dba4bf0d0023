"""Sends checkpoints to the server, on threads and connections of their own: metrics do not wait for them.

What the server has already is not sent. A checkpoint whose sending was broken off goes on where it was, because its
chunks are there then.
"""

import hashlib
import json
import threading
import time
from typing import Callable, List, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote

from trialkeeper import chunk_pack, contract
from trialkeeper.access import Access
from trialkeeper.checkpoint_cut import CutCheckpoint, cut, opened_chunk, read_chunk, unreadable
from trialkeeper.checkpoint_entry import Problem
from trialkeeper.checkpoint_upload import Place, Upload
from trialkeeper.reporter import OwnInstallation, pause_after
from trialkeeper.server_connection import Answer, Blocks, FilePart, PartFailed, ServerAway, ServerConnection

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
        self._access, self._connection = access, ServerConnection(access)
        self._path = "trials/%s/" % quote(job_name, safe="")
        self._own, self._known, self._done, self._log, self._clock = own, known, done, log, clock
        self._most_bytes = document.get("max_bytes", 2 ** 62)
        self._rate = document.get("bytes_per_second")
        self._changed = threading.Condition()
        self._waiting: Optional[ToSend] = None
        self._current: Optional[ToSend] = None
        self._stopped = False
        #: False since a server of an earlier version said that it takes chunks one by one only.
        self._packs = True
        #: When something was sent, or answered, last.
        self.moved_at = clock()
        #: Why the server could not be reached, or took nothing, last; "" where it always could.
        self.why_away = ""

    @property
    def is_busy(self) -> bool:
        with self._changed:
            return self._waiting is not None or self._current is not None

    @property
    def unsent(self) -> List[ToSend]:
        """What is being sent, and what waits."""
        with self._changed:
            return [one for one in (self._current, self._waiting) if one is not None]

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
        upload = self._upload(what)
        try:
            checkpoint = cut(what.folder, what.name, self._most_bytes, upload.offer)
            if not self._known(checkpoint.id):
                self._finish(upload, checkpoint)
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
        finally:
            upload.break_off()

    def _upload(self, what: ToSend) -> Upload:
        began, sent = self._clock(), 0

        def send(connection: ServerConnection, sha256: str, place: Place) -> None:
            with opened_chunk(what.folder, place) as (stream, begin):
                try:
                    answer = self._call("PUT", "chunks/" + sha256, lambda moved: FilePart(
                        stream, begin, place.size, moved), connection, upload)
                except PartFailed as failed:
                    raise (Problem(contract.CHANGED, place.path) if failed.error is None
                           else unreadable(place.path, failed.error)) from failed
            if answer.status == 400:  # it has another hash than it had
                raise Problem(contract.CHANGED, what.name)
            self._must_be_taken(answer)
            counts(place.size)

        def counts(size: int) -> None:
            nonlocal sent
            sent += size
            if self._rate:
                self._wait(sent / self._rate - (self._clock() - began))

        def send_several(connection: ServerConnection, some: List[Tuple[str, Place]]) -> None:
            if self._packs:
                contents = [read_chunk(what.folder, place) for _, place in some]
                if any(hashlib.sha256(content).hexdigest() != sha256
                       for (sha256, _), content in zip(some, contents)):
                    raise Problem(contract.CHANGED, what.name)
                body = chunk_pack.pack(contents)
                answer = self._call("POST", "chunks/several", body, connection, upload)
                if answer.status not in (404, 405):
                    self._must_be_taken(answer)
                    counts(len(body))
                    return
                self._packs = False
            for sha256, place in some:
                send(connection, sha256, place)

        def ask(connection: ServerConnection, hashes: List[str]) -> List[str]:
            body = json.dumps({"hashes": hashes}).encode("ascii")
            answer = self._call("POST", "chunks/missing", body, connection, upload)
            self._must_be_taken(answer)
            return _hashes(answer, hashes)

        # where there is a limit, it is not to be reached sooner
        upload = Upload(self._connection, ask, send,
                        None if self._rate else lambda: ServerConnection(self._access), self._clock, send_several)
        return upload

    def _finish(self, upload: Upload, checkpoint: CutCheckpoint) -> None:
        hashes = list(dict.fromkeys(chunk for file in checkpoint.manifest["files"] for chunk in file["chunks"]))
        upload.finish()
        for _ in range(_MANIFESTS):
            answer = self._call("PUT", "checkpoints/" + checkpoint.id, checkpoint.text, self._connection, upload)
            if answer.status != 409:
                self._must_be_taken(answer)
                return
            upload.send_again(_hashes(answer, hashes))
        raise Problem(contract.NOT_TAKEN, "the server says again and again that chunks are missing")

    def _call(self, method: str, path: str, body: Union[bytes, Callable[[Callable[[], None]], FilePart]],
              connection: ServerConnection, upload: Upload) -> Answer:
        """The server's answer. Tries until there is one. Raises _Gone, _Stopped."""
        failures = 0
        while True:
            with self._changed:
                if self._stopped or upload.is_over:
                    raise _Stopped
            try:
                # what is sent once more is no progress: a server without room would be waited for without end
                moved = _nothing if failures else self._moves
                part = Blocks(body, moved) if isinstance(body, bytes) else body(moved)
                answer = connection.call(method, self._path + path, self._counts, part,
                                         {"Content-Type": "application/octet-stream",
                                          "Content-Length": str(len(part))})
            except ServerAway as away:
                self.why_away = str(away)
                if not failures:
                    self._log("a checkpoint cannot be sent now: %s" % away)
                self._wait(max(pause_after(failures), away.retry_after))
                failures += 1
                continue
            self._moves()
            if answer.status == 410:
                raise _Gone
            return answer

    def _moves(self) -> None:
        self.moved_at = self._clock()

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


def _nothing() -> None:
    pass


def _hashes(answer: Answer, asked: List[str]) -> List[str]:
    """Those of the asked ones that the answer names as missing."""
    missing = answer.document.get("missing")
    named = {one for one in missing if isinstance(one, str)} if isinstance(missing, list) else set()
    return [one for one in asked if one in named]

