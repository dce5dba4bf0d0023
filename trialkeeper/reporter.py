"""Sends the unacknowledged part of the journal and hears the answers, on a thread: a slow server delays nothing.

What the reporter learns it tells the keeper by ``tell(word, detail)``, called on its own thread:

ANSWERED   the server took a report for the first time since it was away (or at all)
ORDERS     a list of orders
CLAIMED    another keeper owns the attempt: this one must end and start nothing
GONE       the server does not want the attempt any more
DONE       everything was delivered, or nobody wants the rest ("delivered", "gone"), or no server answered for
           the give-up time ("gave up"); after this the thread has ended
"""

import contextlib
import json
import os
import random
import threading
import time
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import quote

from trialkeeper import contract
from trialkeeper.access import Access
from trialkeeper.attempt_folder import read_accepted, read_text, write_file
from trialkeeper.back_off import back_off
from trialkeeper.journal import Journal
from trialkeeper.kept_files import KeptFile
from trialkeeper.server_connection import Answer, FilePart, PartFailed, ServerAway, ServerConnection
from trialkeeper.starting_threads import start_thread

ANSWERED, ORDERS, CLAIMED, GONE, DONE = "answered", "orders", "claimed", "gone", "done"
DELIVERED, GAVE_UP = "delivered", "gave up"
#: Name of the thread.
THREAD = "reporter"

#: A server may ask for entries to be gathered for so many seconds, and no longer.
LONGEST_GATHERED = 10.0
#: Seconds of the shortest and the longest pause while the server is away.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
#: A server may not ask for reports more often than this many seconds.
SHORTEST_INTERVAL = 0.05
#: Seconds until what the trial uses is read first. Of a short trial it says nothing, and finding the trial's processes
#: among all of the machine costs more than the report.
FIRST_READING = 2.0


def pause_after(failures: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds to wait after so many failures in a row: growing, and not the same for all keepers."""
    return max(SHORTEST_PAUSE, back_off(failures, (SHORTEST_PAUSE, LONGEST_PAUSE), chance()))


class OwnInstallation:
    """Which installation this attempt belongs to: learnt from the first good answer, kept in the folder."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, contract.INSTALLATION_FILE)
        self.id = (read_text(self._path) or "").strip() or None

    def refuses(self, answer: Answer) -> str:
        """Why the answer does not come from our installation; "" if it does. The first one becomes ours."""
        if answer.installation is None:
            return "answered %d, but not as a server of trials does" % answer.status
        if self.id is None:
            self.id = answer.installation
            with contextlib.suppress(OSError):  # the disk is full: it is known in memory
                write_file(self._path, self.id)
        return "" if answer.installation == self.id else "belongs to another installation (%s)" % answer.installation


class Reporter:
    """The reporting thread. ``start`` it once; every other method may be called from any thread."""

    def __init__(self, *, access: Access, job_name: str, folder: str, journal: Journal, keeper: contract.KeeperDocument,
                 limits: contract.LimitsDocument, tell: Callable[[str, Any], None], log: Callable[[str], None],
                 now: Callable[[], float], resources: Callable[[], Optional[Dict[str, Any]]],
                 clock: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random,
                 prepare: Callable[[], None] = lambda: None) -> None:
        """``now``: the time for ``sent_at``; ``clock``: monotonic seconds; ``resources``: a fresh reading or None.

        ``prepare``: called once, on the reporting thread, before the first report with entries; by a keeper that only
        listens, before its first.
        """
        self._access, self._job_name, self._folder, self._journal = access, job_name, folder, journal
        self._keeper, self._tell, self._log, self._now = keeper, tell, log, now
        self._resources, self._clock, self._chance = resources, clock, chance
        self._prepare: Optional[Callable[[], None]] = prepare
        self._connection = ServerConnection(access)
        self._own = OwnInstallation(folder)
        self._interval = limits.get("report_interval", 10.0)
        self._give_up_after = limits.get("give_up_after", 86400.0)
        self._listens_only = keeper.get("replica", 0) != 0
        self._accepted = min(read_accepted(folder), journal.last_n)
        self._greeted = journal.opened_at == 0 or self._listens_only
        self._changed = threading.Condition()
        self._next_resources_at = clock() + min(self._interval, FIRST_READING)
        self._held_until = clock() + (limits.get("hold_started", 0.0) if self._greeted else 0.0)
        self._gather_until = 0.0
        self._is_urgent = False
        self._next_heartbeat_at = self._held_until
        self._paused_until = 0.0
        self._url_file_stamp = access.url_file_stamp()
        self._failures = 0
        self._heard_at = clock()
        self._finished_at: Optional[float] = None
        self._files: List[KeptFile] = []
        self._is_gone = self._stopped = False
        self._may_begin = True
        self._batch_bytes = contract.REPORT_BATCH_BYTES
        self._way = ""
        self._too_large = 0  # number of an entry that the server will not take
        self._gap_at = 0
        self._was_slowed = False

    def start(self, start: Callable[[str, Callable[[], None]], None] = start_thread, *, begins: bool = True) -> None:
        """``start(name, work)`` starts the thread, now or later. With ``begins`` false it waits for ``begin``."""
        self._may_begin = begins
        start(THREAD, self._run)

    def begin(self) -> None:
        """There is something to report."""
        with self._changed:
            self._may_begin = True
            self._changed.notify()

    def deliver_here(self, is_over: Callable[[], bool]) -> None:
        """Deliver what is left on the caller's thread, where none can be started, until that is done or ``is_over``.

        Call it after ``finish``; it tells DONE, as the thread would.
        """
        self._may_begin = True
        self._run(is_over, longest_wait=1.0)

    def notify(self, may_wait: float = 0.0, *, is_urgent: bool = True) -> None:
        """The journal has new entries. ``may_wait``: for so many seconds, because others are expected to follow.

        Those that are not ``is_urgent`` wait for others, too, as long as the server has asked for it.
        """
        with self._changed:
            self._held_until = self._clock() + may_wait
            self._is_urgent = self._is_urgent or is_urgent
            self._changed.notify()

    def report_soon(self) -> None:
        """Report now, also without entries: the server waits to hear what changed."""
        with self._changed:
            self._next_heartbeat_at = self._clock()
            self._changed.notify()

    def send_before_end(self, files: List[KeptFile]) -> None:
        """Files to deliver before the ``ended`` entry, whose acknowledgement ends the token. Call it before that."""
        with self._changed:
            self._files = list(files)

    def finish(self) -> None:
        """``ended`` is in the journal: deliver what is left, then tell DONE."""
        with self._changed:
            self._may_begin = True
            self._finished_at = self._clock()
            self._changed.notify()

    def stop(self) -> None:
        """End the thread after the call it is in. Nothing is lost: the journal stays."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    # --- the thread ------------------------------------------------------------------------

    def _run(self, is_over: Callable[[], bool] = lambda: False, longest_wait: float = 60.0) -> None:
        while not is_over():
            with self._changed:
                while not self._is_due() and not is_over():
                    self._changed.wait(min(longest_wait, self._seconds_to_wait()))
                if self._stopped:
                    break
            try:
                self._round()
            except Exception as error:  # a bug, or a disk that cannot be read: the trial must not suffer from it
                self._log("reporting failed: %s: %s" % (type(error).__name__, error))
                self._pause(0.0)
        self._connection.close()

    def _is_due(self) -> bool:
        now = self._clock()
        if self._stopped:
            return True
        if not self._may_begin:
            return False
        if now < self._paused_until:
            self._look_at_accepted_file()
            if self._finished_at is not None and self._is_delivered():
                return True
            stamp = self._access.url_file_stamp()
            if stamp == self._url_file_stamp or stamp is None:
                return False
            self._url_file_stamp = stamp  # the server has come back under another address: ask it at once
            self._failures = min(self._failures, 1)  # and should it not be ready yet, soon again
            return True
        if self._is_gone:
            return self._finished_at is not None
        return (self._has_news() and now >= self._news_due_at() or self._finished_at is not None
                or now >= self._next_heartbeat_at)

    def _is_delivered(self) -> bool:
        return self._listens_only or (self._accepted >= self._journal.last_n and not self._files)

    def _news_due_at(self) -> float:
        return self._held_until if self._is_urgent else max(self._held_until, self._gather_until)

    def _has_news(self) -> bool:
        return not self._listens_only and self._accepted < self._journal.last_n

    def _seconds_to_wait(self) -> float:
        now = self._clock()
        if self._is_gone or not self._may_begin:
            return 60.0
        if now < self._paused_until:
            return min(1.0, self._paused_until - now)
        due = min(self._next_heartbeat_at, self._news_due_at()) if self._has_news() else self._next_heartbeat_at
        return max(0.0, due - now)

    def _round(self) -> None:
        # before the call: an address that is written while an old one is being tried is news
        self._url_file_stamp = self._access.url_file_stamp()
        if self._failures:
            self._look_at_accepted_file()
        if self._finished_at is not None:
            if self._is_gone or self._is_delivered():
                if self._is_gone or self._listens_only:
                    self._note_accepted(self._journal.last_n)  # nobody wants the rest: nothing is left to be delivered
                self._end("gone" if self._is_gone else DELIVERED)
                return
            if self._clock() - max(self._heard_at, self._finished_at) >= self._give_up_after:
                self._log("no server answered for %.0f s: giving up; the journal stays here" % self._give_up_after)
                self._end(GAVE_UP)
                return
        try:
            only_the_end_is_left = self._finished_at is not None and self._accepted >= self._journal.last_n - 1
            if self._files and only_the_end_is_left and self._greeted:
                self._send_file(self._files[0])
            else:
                self._send_report()
        except ServerAway as away:
            if not self._failures:
                self._log("the server is away: %s" % away)
            self._pause(away.retry_after)

    def _end(self, how: str) -> None:
        self._stopped = True
        self._tell(DONE, how)

    def _pause(self, at_least: float) -> None:
        seconds = max(pause_after(self._failures, self._chance), at_least)
        self._failures += 1
        self._paused_until = self._clock() + seconds
        if self._finished_at is not None:
            give_up_at = max(self._heard_at, self._finished_at) + self._give_up_after
            self._paused_until = min(self._paused_until, max(give_up_at, self._clock() + 0.05))

    def _slow_down(self, seconds: float) -> None:
        # our server lives, and wants less of us: what waits meanwhile goes in one report
        if not self._was_slowed:
            self._was_slowed = True
            self._log("the server asks for fewer reports; what it takes later is sent later")
        self._heard_at = self._clock()
        self._paused_until = self._heard_at + max(SHORTEST_PAUSE, seconds) * (1.0 + 0.25 * self._chance())

    def _heard(self) -> None:
        first = self._failures > 0 or self._own.id is None
        self._failures, self._paused_until, self._heard_at = 0, 0.0, self._clock()
        if first:
            self._log("the server answers")
        if self._connection.way != self._way:
            self._way = self._connection.way
            with contextlib.suppress(OSError):  # the disk is full: it is only shown to people
                write_file(os.path.join(self._folder, contract.WAY_FILE), self._way)

    # --- reports ---------------------------------------------------------------------------

    def _send_report(self) -> None:
        started_at = self._clock()
        with self._changed:
            self._gather_until, self._is_urgent = 0.0, False  # where this report fails it is not waited again
        newest = self._journal.last_n
        lines: List[bytes] = []
        if self._greeted and not self._listens_only:
            last = self._journal.last_n - (1 if self._files and self._journal.ended else 0)
            lines = self._journal.lines(self._accepted + 1, last, self._batch_bytes)
            if lines and self._too_large == self._accepted + 1:
                lines = [_without_content(lines[0])]
        if self._prepare is not None and (lines or self._listens_only):
            self._prepare()
            self._prepare = None
        document: Dict[str, Any] = {"keeper": self._keeper, "sent_at": self._now()}
        if started_at >= self._next_resources_at:
            document["resources"] = self._resources()
            self._next_resources_at = started_at + self._interval
            if document["resources"] is None:
                del document["resources"]
        body = json.dumps(document)[:-1].encode("ascii") + b', "entries": [' + b",".join(lines) + b"]}"
        # no Content-Type: there is only one, and reading it costs the server a sixth of its time for a report
        answer = self._connection.call("POST", "trials/%s/reports" % quote(self._job_name, safe=""), self._counts, body)
        self._hear(answer, len(lines))
        if self._accepted >= newest:
            self._gather(answer.document.get("gather_for"))

    def _gather(self, seconds: Any) -> None:
        """What is new may wait for others, as the server has asked in an answer to all that there was."""
        if isinstance(seconds, (int, float)) and seconds > 0:
            with self._changed:
                self._gather_until = self._clock() + min(seconds, LONGEST_GATHERED)

    def _counts(self, answer: Answer) -> str:
        error = answer.document.get("error")
        right = (answer.status == 200 and isinstance(answer.document.get("accepted"), int)
                 or answer.status == 409 and error in (contract.ERROR_GAP, contract.ERROR_CLAIMED)
                 or answer.status == 410 and error == contract.ERROR_GONE
                 or answer.status == 413
                 or answer.status == 429 and answer.installation is not None and answer.installation == self._own.id)
        if not right:
            message = answer.document.get("message")
            return "answered %d%s" % (answer.status, ": %.200s" % message if isinstance(message, str) else "")
        if answer.status == 413 and answer.installation is None:
            return ""  # a proxy before the server may say so; sending less is right in any case
        return self._own.refuses(answer)

    def _hear(self, answer: Answer, sent: int) -> None:
        error = answer.document.get("error")
        if answer.status == 429:
            self._slow_down(answer.retry_after)
            return
        if answer.status == 413:
            if sent == 0:
                raise ServerAway("%s refuses a report without entries as too large" % answer.url)
            if sent == 1:
                self._too_large = self._accepted + 1
            self._batch_bytes = max(1024, self._batch_bytes // 2)
            return
        expected = answer.document.get("expected")
        if error == contract.ERROR_GAP and (not isinstance(expected, int) or expected < 1
                                            or expected == self._gap_at == self._accepted + 1):
            raise ServerAway("%s sees a gap where there is none (it expects entry %s)" % (answer.url, expected))
        self._heard()
        if answer.status == 410:
            self._is_gone = True
            self._tell(GONE, str(answer.document.get("message") or "the server does not want this attempt any more"))
        elif error == contract.ERROR_CLAIMED:
            if not self._listens_only:
                self._stopped = True
                self._tell(CLAIMED, str(answer.document.get("message") or "another keeper runs this attempt"))
        elif error == contract.ERROR_GAP:
            self._gap_at = int(answer.document["expected"])
            self._note_accepted(self._agree_on(self._gap_at - 1))
        else:
            self._hear_reply(answer.document)

    def _hear_reply(self, reply: Dict[str, Any]) -> None:
        self._gap_at = 0
        if not self._listens_only:
            accepted = self._agree_on(reply["accepted"])
            self._greeted = True
            if accepted != self._accepted:
                self._note_accepted(accepted)
        within = reply.get("next_report_within")
        seconds = float(within) if isinstance(within, (int, float)) and within > 0 else self._interval
        with self._changed:
            self._next_heartbeat_at = self._clock() + max(SHORTEST_INTERVAL, min(seconds, 3600.0))
        for rejected in reply.get("rejected") or []:
            self._log("the server rejected an entry: %.300s" % json.dumps(rejected))
        self._tell(ANSWERED, None)
        if reply.get("orders"):
            self._tell(ORDERS, reply["orders"])

    def _agree_on(self, accepted: int) -> int:
        if not self._greeted and accepted > self._journal.opened_at:
            self._log("entries %d to %d were lost here with a power cut; the server has them"
                      % (self._journal.opened_at + 1, accepted))
            self._journal.shift(accepted)
        self._greeted = True
        return max(0, min(accepted, self._journal.last_n))

    def _note_accepted(self, accepted: int) -> None:
        self._accepted = accepted
        try:
            write_file(os.path.join(self._folder, contract.ACCEPTED_FILE), str(accepted))
        except OSError as error:
            self._log("%s could not be written: %s" % (contract.ACCEPTED_FILE, error))

    def _look_at_accepted_file(self) -> None:
        # a platform that collects the journal as a file says so there
        accepted = min(read_accepted(self._folder), self._journal.last_n)
        if accepted > self._accepted:
            self._accepted = accepted
            self._heard_at = self._clock()

    # --- kept files ------------------------------------------------------------------------

    def _send_file(self, file: KeptFile) -> None:
        path = "trials/%s/files/%s" % (quote(self._job_name, safe=""), quote(os.fsencode(file.name), safe="/"))
        try:
            with file.open() as stream:
                size = os.fstat(stream.fileno()).st_size
                # no more than that: others may append to it meanwhile
                answer = self._connection.call("PUT", path, self._takes_file, FilePart(stream, 0, size),
                                               {"Content-Type": "application/octet-stream"})
        except PartFailed as failed:
            if failed.error is None:
                self._log("the file %s is sent again: it became shorter" % file.path)
                self._pause(0.0)
                return
            self._log("the file %s cannot be kept: %s" % (file.path, failed))
        except OSError as error:
            self._log("the file %s cannot be kept: %s" % (file.path, error))
        else:
            self._heard()
            if answer.status >= 300:
                self._log("the server does not keep the file %s: it answered %d %.200s"
                          % (file.name, answer.status, answer.document.get("message") or ""))
        self._files.pop(0)

    def _takes_file(self, answer: Answer) -> str:
        # refused for good (too large, no place for files) is an answer too
        if answer.status in (429, 500, 502, 503, 504):
            return "answered %d" % answer.status
        return self._own.refuses(answer)


def _without_content(line: bytes) -> bytes:
    entry = json.loads(line)
    return json.dumps({"n": entry["n"], "at": entry["at"], "type": entry["type"], "kind": entry.get("kind"),
                       "omitted": "the server takes no entry of %d bytes" % len(line)}).encode("ascii")
