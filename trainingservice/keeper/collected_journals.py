"""Keepers that cannot call the server: their journals are fetched by the service and delivered on their behalf.

What is to be collected is noted in files of the service's own (0600: they hold tokens), so the next object
goes on where this one stopped. A note goes away with the journal's last entry, with the experiment, when the job is
refused, or ``LATE_FOR`` after the job's end on its platform: a job that never ran, or whose keeper was killed, leaves
no last entry.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trainingservice.errors import TrainingServiceError
from trainingservice.keeper.journal_delivery import Reply, deliver, deliver_quiet, keeper_document
from trainingservice.keeper.signs_of_life import QuietReport, SeveralReports
from trainingservice.lasting_thread import LastingThread
from trainingservice.trial_job import JobApplicationForm
from trialkeeper import attempt_folder, contract

logger = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK_EVERY = 1.0
#: Seconds between signs of life, whose answers bring orders, until the server has said how often it wants them.
SIGN_OF_LIFE_EVERY = 10.0
#: Seconds after a job's end for which its journal is still looked for: logs and files of a platform come late. The
#: pauses between two looks are this part of the time since the end.
LATE_FOR, LATE_PAUSE = 900.0, 0.2
#: Characters of entries of one journal that wait for a server which does not take them; no more is read meanwhile.
MOST_WAITING = 16 * 1024 * 1024


class JournalSource(Protocol):
    """Where the journal of one attempt is read. For one thread at a time."""

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        """The journal's id ("" while there is none), the keeper's facts, entries not read before. Raises OSError,
        TrainingServiceError."""

    def rewind(self) -> None:
        """Give all entries again."""

    def acknowledge(self, number: int) -> None: ...

    def obey(self, orders: list[contract.Order]) -> None:
        """Orders of the server for the keeper."""

    def cancel(self) -> None:
        """The server does not want the attempt any more."""


@dataclass
class _Collected:
    job_name: str
    experiment_id: str
    token: str
    report_interval: float
    source: JournalSource
    waiting: list[contract.Entry] = field(default_factory=list)
    #: Characters of what was read since none waited.
    size: int = 0
    journal_id: str = ""
    #: What is known of its keeper.
    keeper: dict[str, Any] = field(default_factory=dict)
    #: Monotonic time at which the next sign of life is due.
    speaks_at: float = float("-inf")
    #: Its journal has come to its end by a stop; the platform may run the job anew, with another journal.
    was_stopped: bool = False
    #: When the platform was seen to say that the job has ended (seconds since 1970): no more signs of life then.
    over_since: float | None = None
    next_look: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


class CollectedJournals:
    """All journals one service collects; a thread looks after them between ``open`` and ``close``."""

    def __init__(self, folder: Path, urls: Callable[[], tuple[str, ...]], source: Callable[[str, str], JournalSource],
                 clock: Callable[[], float] = time.time, look_every: float = LOOK_EVERY) -> None:
        """``source(experiment id, job name)``; ``urls``: where this process reaches the server; ``look_every``:
        seconds between two looks."""
        self._folder, self._urls, self._source, self._clock = folder, urls, source, clock
        self._look_every = look_every
        self._jobs: dict[str, _Collected] = {}
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._thread = LastingThread("collected journals", self._run, stopping=self._closed)
        self._several = SeveralReports()

    def open(self) -> None:
        """Take up what earlier objects noted, and begin. Harmless when repeated."""
        if self._thread.was_started:
            return
        self._load()
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(15.0)

    def expect(self, form: JobApplicationForm) -> None:
        """Collect this attempt's journal from now on. Raises OSError where that cannot be noted."""
        if not form.keeper.token:
            return  # of a resumed job: noted by an earlier object
        note = {"experiment_id": form.experiment_id, "token": form.keeper.token,
                "report_interval": form.limits.report_interval}
        self._note(form.job_name, note)
        self._add(form.job_name, note)

    def finish(self, job_name: str) -> None:
        """The job has ended on the platform: fetch what is left now, and send no more signs of life."""
        with self._guard:
            job = self._jobs.get(job_name)
        if job is None or job.over_since is not None:
            return
        self._collect(job)  # before it is told that the end was seen
        job.over_since = self._clock()
        self._collect(job)
        with self._guard:
            is_left = job_name in self._jobs
        if is_left:
            try:
                self._note(job_name, {"experiment_id": job.experiment_id, "token": job.token,
                                      "report_interval": job.report_interval, "over_since": job.over_since})
            except OSError as error:  # the next object learns of the end by itself, or looks for longer
                logger.info("the end of %s cannot be noted: %s", job_name, error)

    def refused(self, job_name: str) -> None:
        """The platform certainly has no such job: there is nothing to collect."""
        self._drop(job_name)

    def collects(self, job_name: str) -> bool:
        """Whether something of this attempt may still come."""
        with self._guard:
            return job_name in self._jobs

    def run_anew(self, job_name: str) -> None:
        """The platform runs the job once more, in an emptied folder and with another journal."""
        with self._guard:
            job = self._jobs.get(job_name)
            if job is not None:
                self._jobs[job_name] = _Collected(job_name, job.experiment_id, job.token, job.report_interval,
                                                  self._source(job.experiment_id, job_name))

    def forget(self, experiment_id: str) -> None:
        """The experiment is removed."""
        self._load()
        with self._guard:
            names = [name for name, job in self._jobs.items() if job.experiment_id == experiment_id]
        for name in names:
            self._drop(name)

    def _load(self) -> None:
        for path in self._folder.glob("*.json"):
            note = attempt_folder.read_object(str(path))
            if note is not None:
                self._add(path.stem, note)

    def _note(self, name: str, note: dict[str, Any]) -> None:
        attempt_folder.make_private_folder(str(self._folder))
        attempt_folder.write_file(str(self._folder / f"{name}.json"), json.dumps(note), durable=True, secret=True)

    def _add(self, name: str, note: dict[str, Any]) -> None:
        with self._guard:
            known = self._jobs.get(name)
            if known is None:
                experiment = str(note.get("experiment_id") or "")
                self._jobs[name] = _Collected(name, experiment, str(note.get("token") or ""),
                                              float(note.get("report_interval") or SIGN_OF_LIFE_EVERY),
                                              self._source(experiment, name), over_since=note.get("over_since"))
            else:
                known.token = str(note.get("token") or known.token)

    def _drop(self, name: str) -> None:
        with self._guard:
            self._jobs.pop(name, None)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._closed.wait(self._look_every):
            with self._guard:
                jobs = list(self._jobs.values())
            for job in jobs:
                if self._closed.is_set():
                    return
                self._look(job)
            self._give_signs_of_life(jobs)

    def _give_signs_of_life(self, jobs: Sequence[_Collected]) -> None:
        """Tell the server of those that are due, with one request for all where it takes that."""
        now = time.monotonic()
        due = [job for job in jobs if self._is_due(job, now)]
        for start in range(0, len(due), contract.MOST_SEVERAL_REPORTS):
            if self._closed.is_set():
                return
            batch = due[start: start + contract.MOST_SEVERAL_REPORTS]
            try:
                replies = deliver_quiet(self._urls(), [QuietReport(job.job_name, job.token, {
                    "keeper": keeper_document(job.journal_id, job.keeper), "sent_at": self._clock()})
                    for job in batch], self._several)
            except Exception:
                logger.exception("the signs of life of %d keepers could not be given", len(batch))
                continue
            for job, reply in zip(batch, replies, strict=True):
                if reply is not None:
                    self._hear_sign(job, reply)

    def _is_due(self, job: _Collected, now: float) -> bool:
        with job.lock:
            return (job.over_since is None and bool(job.journal_id) and not job.waiting and not job.was_stopped
                    and now >= job.speaks_at)

    def _hear_sign(self, job: _Collected, reply: Reply) -> None:
        with job.lock:
            try:
                self._hear(job, reply)
            except (OSError, TrainingServiceError) as error:
                logger.info("an answer for the keeper of %s cannot be brought yet: %s", job.job_name, error)
            except Exception:
                logger.exception("an answer for the keeper of %s cannot be brought", job.job_name)

    def _look(self, job: _Collected) -> None:
        """Collect what is there, of an ended job less and less often, and at last no more."""
        now = self._clock()
        if job.over_since is not None and now < job.next_look <= now + LATE_FOR:  # a clock that jumps ends no pause
            return
        self._collect(job)
        if job.over_since is None:
            return
        since = max(0.0, now - job.over_since)
        job.next_look = now + since * LATE_PAUSE
        if since >= LATE_FOR:
            logger.info("the journal of %s is not looked for any more: its job ended %.0f s ago", job.job_name, since)
            self._drop(job.job_name)

    def _collect(self, job: _Collected) -> None:
        with job.lock:
            try:
                self._collect_locked(job)
            except (OSError, TrainingServiceError) as error:
                logger.info("the journal of %s cannot be collected yet: %s", job.job_name, error)
            except Exception:  # one journal must not keep the others from being collected
                logger.exception("the journal of %s cannot be collected", job.job_name)

    def _collect_locked(self, job: _Collected) -> None:
        if not job.waiting:
            job.size = 0
        is_full = job.size >= MOST_WAITING
        journal_id, keeper, entries = (job.journal_id, job.keeper, []) if is_full else job.source.read()
        if not journal_id:
            return
        if job.journal_id not in ("", journal_id):
            if not job.was_stopped:
                logger.warning("there are two journals of %s; the first one counts", job.job_name)
                return
            job.was_stopped = False
        job.journal_id = journal_id
        job.waiting += entries
        job.size += sum(len(json.dumps(entry)) for entry in entries)
        if entries and entries[-1]["type"] != contract.ENDED:
            job.was_stopped = False  # the next run goes on with the same journal
        if job.was_stopped and not job.waiting:
            if job.over_since is not None:
                self._drop(job.job_name)
            return
        job.keeper = keeper
        if not job.waiting:
            return
        ended = job.waiting[-1] if job.waiting[-1]["type"] == contract.ENDED else None
        for reply in deliver(self._urls(), job.job_name, job.token, keeper_document(journal_id, keeper), job.waiting,
                             self._clock()):
            if not self._hear(job, reply):
                return
        if ended is not None and not job.waiting:
            if job.over_since is not None or ended.get("reason") != contract.STOPPED:
                self._drop(job.job_name)
            job.was_stopped = True

    def _hear(self, job: _Collected, reply: Reply) -> bool:
        """What the server said to a report of it; False where that took nothing. The job's lock is held."""
        job.speaks_at = time.monotonic() + _seconds_until_next(job, reply)
        if reply.is_gone:
            job.source.cancel()
            job.waiting.clear()
            self._drop(job.job_name)
            return False
        accepted = reply.accepted
        if accepted is None:
            if reply.is_gap:
                job.waiting.clear()
                job.source.rewind()
            return False
        if job.waiting:
            job.source.acknowledge(accepted)
        job.waiting = [entry for entry in job.waiting if entry["n"] > accepted]
        if reply.orders:
            job.source.obey(reply.orders)
        return True


def _seconds_until_next(job: _Collected, reply: Reply) -> float:
    """As the server wants it, and not later than the job's own limits say where they ask for haste."""
    within = reply.document.get("next_report_within")
    wanted = float(within) if isinstance(within, (int, float)) and within > 0 else SIGN_OF_LIFE_EVERY
    return min(wanted, job.report_interval) if job.report_interval < SIGN_OF_LIFE_EVERY else wanted
