"""Wakes whoever watches an experiment, at most every 250 ms, and reads its rows once for all of them.

One hub per event loop. What rings in this process wakes it at once (``doorbell``); what changed
elsewhere is found by comparing revisions every two seconds, and on SQLite only when the database
file changed. Everything but the frames' reading happens on the loop.
"""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from channels.db import database_sync_to_async
from django.db import connection

from nniweb.experiments.clusters.worker_presence import alive_hosts
from nniweb.experiments.ingest.report_intervals import WATCHED_AGAIN, note_watched
from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.sql import database_health
from nniweb.live import frames

logger = logging.getLogger(__name__)

#: Shortest pause between two frames about one experiment, in seconds.
FRAME_PAUSE = 0.25
#: How often revisions are compared, in seconds: repairs lost rings.
LOOK_SECONDS = 2.0


class Watcher(Protocol):
    """Somebody who watches one experiment. ``seen`` is the revision up to which it has been told.

    ``trial_pk``: the trial of it that is watched, None for the whole experiment.
    """

    seen: int
    trial_pk: int | None
    #: ``frames.beats_of`` that trial when it was last looked at.
    beat: frames.Beat
    #: Whose the experiment was when it was last made sure that this watcher sees it.
    shared: frames.Shared

    async def tell(self, frame: frames.Frame | None) -> None:
        """Take a frame (None: the experiment is gone). Must not wait long."""

    async def may_go_on(self) -> bool:
        """Whether this watcher still sees the experiment, which has changed hands."""


@dataclass
class _Watched:
    """The reader of one experiment."""

    watchers: dict[Watcher, Callable[[int], "frames.Frame | None"]] = field(default_factory=dict)
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    #: The highest revision that has been read for all watchers.
    revision: int = 0
    #: Those that have had their first frame, which comes even if it holds nothing new.
    told: "weakref.WeakSet[Watcher]" = field(default_factory=weakref.WeakSet)
    #: Those to tell once more although no row of the experiment changed.
    due: "weakref.WeakSet[Watcher]" = field(default_factory=weakref.WeakSet)


class Hub:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, _Watched] = {}
        self._list_watchers: set[asyncio.Queue[int]] = set()
        #: Set when something of any cluster may have changed.
        self._cluster_watchers: set[asyncio.Event] = set()
        self._bell: ExitStack | None = None
        self._look: asyncio.Task[None] | None = None
        self._data_version: int | None = None

    # --- watching --------------------------------------------------------------------------

    def watch(self, experiment_pk: int, watcher: Watcher, read: Callable[[int], "frames.Frame | None"]) -> None:
        """From now on tell ``watcher`` what ``read(since)`` finds. Its first frame comes at once.

        Watchers with the same ``read`` function and the same revision share one reading.
        """
        self._start()
        watched = self._watched.setdefault(experiment_pk, _Watched())
        watched.watchers[watcher] = read
        if watched.task is None:
            watched.task = self._loop.create_task(self._read(experiment_pk, watched))
        watched.rung.set()

    def unwatch(self, experiment_pk: int, watcher: Watcher) -> None:
        watched = self._watched.get(experiment_pk)
        if watched is None:
            return
        watched.watchers.pop(watcher, None)
        if not watched.watchers:
            del self._watched[experiment_pk]
            if watched.task is not None:
                watched.task.cancel()
        self._stop_if_unused()

    def watch_list(self) -> "asyncio.Queue[int]":
        """A queue that gets the primary key of each experiment that changes."""
        self._start()
        queue: asyncio.Queue[int] = asyncio.Queue()
        self._list_watchers.add(queue)
        return queue

    def unwatch_list(self, queue: "asyncio.Queue[int]") -> None:
        self._list_watchers.discard(queue)
        self._stop_if_unused()

    def watch_clusters(self) -> asyncio.Event:
        """An event that is set each time a cluster, a machine or a trial on them may have changed."""
        self._start()
        event = asyncio.Event()
        self._cluster_watchers.add(event)
        return event

    def unwatch_clusters(self, event: asyncio.Event) -> None:
        self._cluster_watchers.discard(event)
        self._stop_if_unused()

    # --- readers ---------------------------------------------------------------------------

    async def _read(self, experiment_pk: int, watched: _Watched) -> None:
        while True:
            await watched.rung.wait()
            watched.rung.clear()
            began = time.monotonic()
            due, watched.due = watched.due, weakref.WeakSet()
            try:
                await self._tell_all(watched, due)
            except Exception:
                watched.due.update(due)
                logger.exception("a frame about experiment %d could not be read; it is read again", experiment_pk)
                watched.rung.set()
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(max(0.0, FRAME_PAUSE - (time.monotonic() - began)))

    async def _tell_all(self, watched: _Watched, due: "weakref.WeakSet[Watcher]") -> None:
        groups: dict[tuple[Any, int], list[Watcher]] = {}
        for watcher, read in watched.watchers.items():
            groups.setdefault((read, watcher.seen), []).append(watcher)
        for (read, since), watchers in groups.items():
            frame = await database_sync_to_async(read)(since)
            shared: frames.Shared | None = None
            if frame is not None:
                watched.revision = max(watched.revision, frame["revision"])
                shared = frame.pop(frames.SHARED_WITH)
            for watcher in watchers:
                if shared is not None and watcher.shared != shared:
                    if not await watcher.may_go_on():
                        watched.watchers.pop(watcher, None)
                        await watcher.tell(None)
                        continue
                    watcher.shared = shared
                if frame is None:
                    watched.watchers.pop(watcher, None)  # it is told once
                elif frame["revision"] == since and watcher in watched.told and watcher not in due:
                    continue
                else:
                    watcher.seen = frame["revision"]
                    watched.told.add(watcher)
                await watcher.tell(frame)

    # --- bells -----------------------------------------------------------------------------

    def _start(self) -> None:
        if self._bell is None:
            self._bell = ExitStack()
            self._bell.enter_context(doorbell.listening(self._heard))
            self._look = self._loop.create_task(self._compare_revisions())

    def _stop_if_unused(self) -> None:
        if not self._watched and not self._list_watchers and not self._cluster_watchers and self._bell is not None:
            self._bell.close()
            self._bell = None
            if self._look is not None:
                self._look.cancel()

    def _heard(self, experiment_pk: int) -> None:
        """Called in the ringing thread."""
        try:
            self._loop.call_soon_threadsafe(self._wake, experiment_pk)
        except RuntimeError:
            logger.debug("the event loop is closed; no page watches any more")

    def _wake(self, experiment_pk: int) -> None:
        if (watched := self._watched.get(experiment_pk)) is not None:
            watched.rung.set()
        for queue in self._list_watchers:
            queue.put_nowait(experiment_pk)
        self._wake_cluster_watchers()

    def _wake_cluster_watchers(self) -> None:
        for event in self._cluster_watchers:
            event.set()

    async def _compare_revisions(self) -> None:
        known: dict[int, int] = {}  # of all listed experiments, at the last look while a list was watched
        circumstances: tuple[frozenset[str], str] | None = None
        clusters: int | None = None
        watched_at = float("-inf")
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if time.monotonic() >= watched_at + WATCHED_AGAIN:
                    watched_at = time.monotonic()
                    await self._note_watched()
                present = (await database_sync_to_async(alive_hosts)(), database_health.kind_of_trouble())
                all_changed, circumstances = circumstances != present, present
                if not await database_sync_to_async(_database_moved)() and not all_changed:
                    continue
                listed = bool(self._list_watchers)
                watched = {pk: entry.revision for pk, entry in self._watched.items()}
                revisions = await database_sync_to_async(_revisions)(None if listed else list(watched))
                clusters = await self._look_at_clusters(clusters, always=all_changed)
                await self._look_at_trials()
            except Exception:
                logger.exception("revisions could not be compared; they are compared again in two seconds")
                _seen_log.clear()
                circumstances = None
                continue
            if all_changed:  # why experiments are as they are may read differently now
                for entry in self._watched.values():
                    entry.due.update(entry.watchers)
            for pk, revision in revisions.items():
                first_look = listed and not known
                if all_changed or first_look or revision > known.get(pk, watched.get(pk, -1)) \
                        or revision > watched.get(pk, revision):
                    self._wake(pk)
            for pk in watched.keys() | known.keys():
                if pk not in revisions:
                    self._wake(pk)  # it was deleted
            known = revisions if listed else {}

    async def _note_watched(self) -> None:
        """Keepers of what is shown here report more often than others, in an installation with many."""
        watchers = [(pk, watcher.trial_pk) for pk, entry in self._watched.items() for watcher in entry.watchers]
        if watchers:
            await database_sync_to_async(note_watched)(
                {pk for pk, trial_pk in watchers if trial_pk is None},
                {trial_pk for _, trial_pk in watchers if trial_pk is not None})

    async def _look_at_clusters(self, before: int | None, *, always: bool) -> int | None:
        """Wake those who watch clusters where something of one changed that rings for no experiment."""
        if not self._cluster_watchers:
            return None
        state: int = await database_sync_to_async(frames.state_of_clusters)()
        if always or state != before:
            self._wake_cluster_watchers()
        return state

    async def _look_at_trials(self) -> None:
        """Tell those who watch a trial of what comes without a revision."""
        watchers = [(entry, watcher, watcher.trial_pk) for entry in self._watched.values()
                    for watcher in entry.watchers if watcher.trial_pk is not None]
        if not watchers:
            return
        beats = await database_sync_to_async(frames.beats_of)({trial_pk for _, _, trial_pk in watchers})
        for entry, watcher, trial_pk in watchers:
            if watcher.beat != beats[trial_pk]:
                watcher.beat = beats[trial_pk]
                entry.due.add(watcher)
                entry.rung.set()


def _revisions(wanted: list[int] | None) -> dict[int, int]:
    """Revisions of these experiments; of the newest ones where a list of all is watched."""
    if wanted is not None:
        return frames.revisions_of(wanted)
    newest = Experiment.objects.filter(deleted_at=None).order_by("-created_at")
    return frames.present_revisions(newest[:2000])


def _database_moved() -> bool:
    """Whether anybody may have changed the database since the last look.

    SQLite's own counter (PRAGMA data_version) needs a connection that stays open, which the pool's
    threads do not have, so the size and time of its write-ahead log are compared instead.
    """
    if connection.vendor != "sqlite":
        return True
    log = Path(f"{connection.settings_dict['NAME']}-wal")
    try:
        state = log.stat()
    except OSError:
        return True
    moved = (state.st_mtime_ns, state.st_size) != _seen_log.get(str(log))
    _seen_log[str(log)] = (state.st_mtime_ns, state.st_size)
    return moved


_seen_log: dict[str, tuple[int, int]] = {}

_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub() -> Hub:
    """The hub of the running loop."""
    loop = asyncio.get_running_loop()
    for other in [other for other in _hubs if other.is_closed()]:
        del _hubs[other]
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
