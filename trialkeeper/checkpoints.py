"""Checkpoints of one attempt: found, sent, journaled, and put back in place for the next attempt.

A checkpoint counts when the server has committed its journal entry, which is written after its chunks and its manifest
were taken. So a keeper that is killed anywhere leaves the one before in use.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from trialkeeper import contract
from trialkeeper.access import Access
from trialkeeper.checkpoint_entry import Problem, entry, is_name
from trialkeeper.checkpoint_folder import CheckpointFolder, Complete, Listing
from trialkeeper.handed_on_folders import HandedOnFolders
from trialkeeper.job_source import fetch_job
from trialkeeper.journal import REMEMBERED_TIMES, Journal
from trialkeeper.metric_source import CHECKPOINT_MARK
from trialkeeper.reporter import OwnInstallation
from trialkeeper.server_connection import ServerAway, ServerConnection

if TYPE_CHECKING:  # loaded where it is used: most trials have no checkpoint
    from trialkeeper.checkpoint_restore import CheckpointRestorer, Restored
    from trialkeeper.checkpoint_sender import CheckpointSender, Sent

#: Seconds between two looks at the folder; where the trial says that one is complete it is looked at once.
LOOK_EVERY = 1.0
#: Seconds for which the server is asked what a job goes on with that its platform may run again, where nothing shows
#: that it has run before; where something does, the answer is waited for as long as a checkpoint would be.
ASK_FOR = 5.0
#: Seconds for which a server is waited for that has what the trial goes on with.
_RESTORE_FOR = 86400.0
#: A metric counts as reported before a checkpoint that was completed at most so many seconds before the metric was
#: read. For checkpoints of which only the file system tells when they were completed.
READ_WITHIN = 0.1
#: Name of the thread.
THREAD = "checkpoints"
#: The word by which the thread wakes the keeper.
NEWS = "checkpoint"


class Checkpoints:
    """For the keeper's main thread, but for ``restore``."""

    def __init__(self, attempt_folder: str, document: contract.CheckpointsDocument, journal: Journal, *,
                 access: Access, job_name: str, is_listener: bool, record: Callable[[List[contract.Entry]], object],
                 start_thread: Callable[[str, Callable[[], None]], None], tell: Callable[[str, Any], None],
                 log: Callable[[str], None], now: Callable[[], float],
                 clock: Callable[[], float] = time.monotonic) -> None:
        """``is_listener``: another replica tells of the attempt; this one only gets its checkpoint put back.

        ``record`` journals entries; ``now``: seconds since 1970; ``clock``: monotonic seconds.
        """
        self._document, self._journal, self._access, self._job_name = document, journal, access, job_name
        self._attempt_folder, self._is_listener = attempt_folder, is_listener
        self._record, self._start_thread, self._tell, self._log = record, start_thread, tell, log
        self._now, self._clock = now, clock
        self._folder = CheckpointFolder(attempt_folder, now)
        folders = document.get("folders")
        self._handed_on = None if folders is None else HandedOnFolders(attempt_folder, folders)
        self._sender: Optional[CheckpointSender] = None
        self._results: queue.SimpleQueue[Sent] = queue.SimpleQueue()
        self._told: Set[str] = {str(one["id"]) for one in journal.checkpoints if one["event"] != contract.FAILED}
        self._k = max([int(one["k"]) for one in journal.checkpoints] or [0])
        self._next_look = 0.0
        self._listing: Listing = []
        #: When intermediate results were read, and the number of the next one then. An earlier keeper of the attempt
        #: may have read what the trial said of a checkpoint and not have sent it: then these times tell its place.
        self._read: Deque[Tuple[float, int]] = deque(journal.earlier_results, maxlen=REMEMBERED_TIMES)
        self._sequences: Dict[str, int] = {}  # of checkpoints of which the trial has said when they were complete

    @property
    def path(self) -> str:
        """The folder for ENV_CHECKPOINTS."""
        return self._folder.path

    # --- before the trial ------------------------------------------------------------------

    @property
    def has_to_restore(self) -> bool:
        """Whether there is, or may be, something to put in place, so that ``restore`` is to be called."""
        return bool(self._document.get("asks_anew") or self._candidates()
                    or self._handed_on is not None and self._handed_on.candidates)

    def _candidates(self) -> List[contract.KnownCheckpoint]:
        """What the trial may go on with, the newest first: those of an earlier run of this journal, then others."""
        own: List[contract.KnownCheckpoint] = [
            {"id": one["id"], "name": one["name"], "step": one["step"], "size": one["size"]}
            for one in reversed(self._journal.checkpoints)
            if one["event"] == contract.SAVED and one["name"] != contract.HANDED_ON]
        return list({one["id"]: one for one in own + list(self._document.get("resume") or [])}.values())

    def make_folder(self) -> None:
        """Raises OSError."""
        self._folder.make()
        if self._handed_on is not None and not self._handed_on.candidates:
            self._handed_on.make()

    def restore(self, is_stopped: Callable[[], bool]) -> List[Restored]:
        """Make the folders, and put in place what the trial loads, and what it goes on with. Blocks. Raises OSError,
        ServerAway.
        """
        if self._document.get("asks_anew"):
            self._ask_anew(is_stopped)
        self._folder.remove_left_over()
        found = []
        if self._handed_on is not None and self._handed_on.candidates:
            self._handed_on.make()
            found.append(self._handed_on.as_handed_on(
                self._restorer(self._handed_on.path, is_stopped).restore(self._handed_on.candidates)))
        if candidates := self._candidates():
            found.append(self._restorer(self._folder.path, is_stopped).restore(candidates))
        return found

    def _restorer(self, folder: str, is_stopped: Callable[[], bool]) -> CheckpointRestorer:
        from trialkeeper.checkpoint_restore import CheckpointRestorer
        return CheckpointRestorer(
            folder, self._job_name, ServerConnection(self._access), OwnInstallation(self._attempt_folder),
            give_up_after=_RESTORE_FOR, log=self._log, is_stopped=is_stopped, clock=self._clock)

    def _ask_anew(self, is_stopped: Callable[[], bool]) -> None:
        """Take over the server's list. The job's own stays where no server answers in time."""
        patience = _RESTORE_FOR if self._folder.is_left_over else ASK_FOR
        try:
            job = fetch_job(self._access, self._attempt_folder, self._job_name, self._log, self._clock,
                            give_up_after=patience, is_stopped=is_stopped)
        except ServerAway as away:
            self._log("no server says what the trial goes on with now (%s): it goes on with what its job says" % away)
            return
        document = (job or {}).get("checkpoints")
        if isinstance(document, dict):
            self._document = {**self._document, "resume": document.get("resume") or []}

    def told(self, text: str) -> str:
        """The text of a parameter file, with the paths of folders that are handed on, where there are any."""
        return text if self._handed_on is None else self._handed_on.told(text)

    def note_restored(self, restored: Restored) -> None:
        """Journal what came of ``restore``: call it for each."""
        entries = [entry(contract.FAILED, k=0, name=candidate["name"], step=candidate["step"],
                         checkpoint_id=candidate["id"], size=candidate["size"], problem=problem)
                   for candidate, problem in restored.problems]
        if restored.checkpoint is not None:
            found = restored.checkpoint
            if found["name"] == contract.HANDED_ON:
                self._log("what another trial has saved is in place: the trial can load it")
            else:
                self._told.add(found["id"])
                self._folder.take_as_found(found["name"])
                self._name_latest(found["name"], found["step"])
                self._log("checkpoint %s is in place: the trial can go on with it" % found["name"])
            entries.append(entry(contract.RESTORED, k=0, name=found["name"], step=found["step"],
                                 checkpoint_id=found["id"], size=found["size"]))
        if entries and not self._is_listener:
            self._record(entries)

    # --- while it runs ---------------------------------------------------------------------

    def take_marks(self, entries: List[contract.Entry]) -> List[contract.Entry]:
        """What the trial reported, without what it says of checkpoints."""
        others: List[contract.Entry] = []
        for one in entries:
            if one.get("kind") == CHECKPOINT_MARK:
                self._note_mark(one)
                continue
            others.append(one)
            if one.get("kind") == contract.PERIODICAL:
                self._read.append((self._now(), self._next_sequence(one["sequence"])))
        return others

    def look(self) -> None:
        """See what is there, if it is time. Call it often, before the trial's metrics are read."""
        self._take_results()
        if self._is_listener or not (self._folder.is_awaited or self._clock() >= self._next_look):
            return
        self._next_look = self._clock() + LOOK_EVERY
        if self._folder.has_news():
            self._listing = self._folder.listing()

    def send_complete(self) -> None:
        """Send what was seen and is complete. Call it when all metrics were read that were written before ``look``."""
        listing, self._listing = self._listing, []
        for complete in self._newer(self._folder.take_complete(listing)) if listing else ():
            self._send(complete)
        self._record_wrong_names()

    # --- after it --------------------------------------------------------------------------

    def finish(self, wait: Callable[[float], object], patience: Callable[[], float], has_ended_well: bool = True,
               has_succeeded: bool = True) -> None:
        """Send what is left, for as long as something moves at least every ``patience()`` seconds.

        ``wait(seconds)`` returns when something happens. ``has_ended_well``: the trial said that all was well, so that
        what it wrote in place last is complete, too. ``has_succeeded``: so is what it saved for others.
        """
        if self._is_listener:
            return
        if self._handed_on is not None and has_succeeded:
            try:
                self._handed_on.offer(self._folder.path)
            except OSError as error:  # a full disk
                self._log("what the trial has saved for others could not be taken: %s" % error)
        for _ in range(2):  # once more for what changed while it was read
            for complete in self._newer(self._folder.take_complete(self._folder.listing(), has_ended_well)):
                self._send(complete)
            while self._sender is not None and self._sender.is_busy:
                self._take_results()
                left = self._sender.moved_at + patience() - self._clock()
                if left <= 0:
                    self._log("the last checkpoint could not be sent in time")
                    break
                wait(min(1.0, left))
            self._take_results()
        if self._sender is not None and patience() > 0:
            for what in self._sender.unsent:
                self._record([entry(contract.FAILED, k=what.k, name=what.name, step=what.step, problem=Problem(
                    contract.NOT_TAKEN, "it was not sent in time: %s" % (self._sender.why_away or "too slow")))])
        unfinished = [entry(contract.FAILED, k=self._next_k(), name=name, step=None,
                            problem=Problem(contract.INCOMPLETE, name)) for name in self._folder.unfinished()]
        if unfinished:
            self._record(unfinished)
        self._record_wrong_names()
        if self._sender is not None:
            self._sender.stop()
        self._folder.clean_up()

    def _newer(self, found: List[Complete]) -> List[Complete]:
        """Those that are not older than one that was saved. A keeper that takes over finds all that its predecessor has
        found, also those that a newer one has overtaken.
        """
        names = {one["name"] for one in self._journal.checkpoints if one["event"] == contract.SAVED}
        newest = max([one.written for one in found if one.name in names] or [0.0])
        return [one for one in found if one.written >= newest]

    def _record_wrong_names(self) -> None:
        if wrong := self._folder.take_wrong_names():
            self._record([entry(contract.FAILED, k=self._next_k(), name=name, step=None,
                                problem=Problem(contract.NOT_PLAIN, name)) for name in wrong])

    # --- small things ----------------------------------------------------------------------

    def _note_mark(self, one: contract.Entry) -> None:
        name, step = one.get("name"), one.get("step")
        if isinstance(name, str) and is_name(name):
            self._folder.announce(name, step if type(step) is int and abs(step) < 2 ** 63 else None)
            self._sequences[name] = self._next_sequence()

    def _next_sequence(self, sequence: int = -1) -> int:
        latest: int = self._read[-1][1] if self._read else self._journal.next_sequence
        return max(latest, sequence + 1)

    def _send(self, complete: Complete) -> None:
        from trialkeeper.checkpoint_sender import CheckpointSender, ToSend
        sequence = self._sequences.pop(complete.name, None)
        if sequence is None:
            sequence = self._sequence_at(complete.changed)
        if self._sender is None:
            self._sender = CheckpointSender(
                self._access, self._job_name, OwnInstallation(self._attempt_folder), self._document,
                self._told.__contains__, self._note_sent, self._log, clock=self._clock)
            self._start_thread(THREAD, self._sender.run)
        if not complete.is_named:
            self._name_latest(complete.name, complete.step)
        k = self._next_k()
        replaced = self._sender.send(ToSend(k, complete.name, complete.step,
                                            self._folder.set_aside(complete.name, k), sequence))
        if replaced is not None:
            self._folder.let_go(replaced.folder)

    def _sequence_at(self, completed: float) -> int:
        """The number of the intermediate result that came next when it was completed."""
        before = [number for read_at, number in self._read if read_at <= completed + READ_WITHIN]
        if before:
            return before[-1]
        return self._journal.next_sequence if not self._read else max(0, self._read[0][1] - 1)

    def _next_k(self) -> int:
        self._k += 1
        return self._k

    def _name_latest(self, name: str, step: Optional[int]) -> None:
        try:
            self._folder.name_latest(name, step)
        except OSError as error:  # a full disk
            self._log("the latest checkpoint could not be named in %s: %s" % (self._folder.path, error))

    def _note_sent(self, sent: Sent) -> None:
        self._results.put(sent)
        self._tell(NEWS, None)

    def _take_results(self) -> None:
        while True:
            try:
                what, checkpoint, problem = self._results.get_nowait()
            except queue.Empty:
                return
            self._folder.let_go(what.folder)
            if checkpoint is not None and checkpoint.id not in self._told:
                self._told.add(checkpoint.id)
                self._record([entry(contract.SAVED, k=what.k, name=what.name, step=what.step,
                                    checkpoint_id=checkpoint.id, size=checkpoint.size, sequence=what.sequence)])
            elif problem is not None and problem.code == contract.CHANGED:
                self._log("checkpoint %s changed while it was read" % what.name)
                self._folder.forget(what.name)  # it is taken when it stays as it is
            elif problem is not None:
                self._log("checkpoint %s cannot be kept: %s" % (what.name, problem))
                self._record([entry(contract.FAILED, k=what.k, name=what.name, step=what.step, problem=problem)])
