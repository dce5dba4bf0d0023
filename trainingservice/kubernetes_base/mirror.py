"""A copy of one kind of objects in memory, kept fresh by one watch.

List, then watch from the list's version; bookmarks move the version on; 410 and an unreadable watch mean
list again; every so often it lists again anyway, as a net. A watch that breaks is opened again after a pause
that grows while nothing comes of it, so a broken API server is asked a few times a minute and no more.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from trainingservice.errors import TrainingServiceError
from trainingservice.kubernetes_base.api import (
    ApiAway,
    ApiRefusal,
    KubernetesApi,
    Object,
    Resource,
    Watch,
    error_of,
)
from trainingservice.lasting_thread import LastingThread
from trialkeeper.back_off import back_off

logger = logging.getLogger(__name__)

#: The server ends a watch after so many seconds; bookmarks keep its version fresh until then.
WATCH_SECONDS = 240
#: Seconds after which a watch on which nothing was heard, not even its end, counts as broken.
SILENCE = WATCH_SECONDS + 30.0
#: Seconds between two lists when nothing goes wrong.
RELIST_EVERY = 600.0
#: First and longest pause after a fault, in seconds.
PAUSES = (0.5, 30.0)
#: A watch that lasted so many seconds, or told of an object, was a good one: the next follows at once. Bookmarks do not
#: count: a server that shuts down may end each new watch at once with one.
GOOD_WATCH = 10.0
#: How many objects that went are remembered: more than can go while one submission waits for its answer.
REMEMBERED = 1000
#: Objects per page of a list.
PAGE = 500


class Mirror:
    """Objects by name. ``start`` it once; ``on_event(name, object)`` is called on its thread, None for gone."""

    def __init__(self, api: KubernetesApi, resource: Resource, namespace: str, selector: str, *,
                 slim: Callable[[Object], Object], on_event: Callable[[str, Object | None], None],
                 on_synced: Callable[[], None] = lambda: None, monotonic: Callable[[], float] = time.monotonic,
                 chance: Callable[[], float] = random.random) -> None:
        """``slim`` cuts an object down to what is kept; ``on_synced`` is called after each list."""
        self.resource = resource
        self._api, self._namespace, self._selector = api, namespace, selector
        self._slim, self._on_event, self._on_synced = slim, on_event, on_synced
        self._monotonic, self._chance = monotonic, chance
        self._lock = threading.Condition()
        self._objects: dict[str, Object] = {}
        #: Names that became known by our own calls since the running list began.
        self._put_while_listing: set[str] = set()
        #: Uids of objects that went lately; the oldest are forgotten.
        self._deleted: deque[object] = deque(maxlen=REMEMBERED)
        self._version = ""
        self._listed_at = float("-inf")
        self._faults = 0
        self._watch: Watch | None = None
        self._closed = False
        #: Why the copy is not fresh, a sentence; "" while it is.
        self.problem = "It is being read for the first time."
        self.lists = self.watches = 0  # how often each was asked for
        self._stopping = threading.Event()
        self._thread = LastingThread(f"watch {resource.plural}", self._run, stopping=self._stopping)

    # --- from any thread -------------------------------------------------------------------

    def start(self) -> None:
        """Begin. Harmless when repeated."""
        with self._lock:
            if not self._closed:
                self._thread.start()

    def stop(self) -> None:
        """End the thread and its watch. Harmless when repeated."""
        self._stopping.set()
        with self._lock:
            self._closed = True
            watch = self._watch
            self._lock.notify_all()
        if watch is not None:
            watch.close()
        self._thread.join(10.0)

    @property
    def is_fresh(self) -> bool:
        return not self.problem

    def get(self, name: str) -> Object | None:
        with self._lock:
            return self._objects.get(name)

    def all(self) -> list[Object]:
        with self._lock:
            return list(self._objects.values())

    def put(self, trial: Object) -> None:
        """An object that we have just made, before the watch tells of it.

        One whose end the watch has told already stays away: else it would be there until the next list.
        """
        name = trial["metadata"]["name"]
        with self._lock:
            if trial["metadata"].get("uid") in self._deleted:
                return
            self._put_while_listing.add(name)
            self._objects.setdefault(name, self._slim(trial))

    def wait_until_fresh(self, timeout: float) -> bool:
        """Wait for the first list, or the next good one."""
        with self._lock:
            return self._lock.wait_for(lambda: self._closed or not self.problem, timeout) and not self.problem

    # --- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            pause = 0.0
            try:
                if not self._version or self._monotonic() - self._listed_at >= RELIST_EVERY:
                    self._list()
                if self._follow():
                    self._faults = 0
                else:
                    pause = self._next_pause(None)
            except ApiRefusal as refusal:
                if refusal.code == 410:
                    self._version = ""
                pause = self._next_pause(refusal.retry_after)
                if refusal.code != 410:
                    self._is_broken(str(error_of(refusal, f"list and watch {self.resource.plural}")))
            except TrainingServiceError as error:
                pause = self._next_pause(None)
                self._is_broken(str(error))
            except Exception:
                logger.exception("the watch of %s failed", self.resource.plural)
                self._version = ""
                pause = self._next_pause(None)
            if pause:
                with self._lock:
                    self._lock.wait_for(lambda: self._closed, pause)

    def _is_broken(self, problem: str) -> None:
        if self.problem != problem and not self._closed:
            logger.warning("%s cannot be watched: %s", self.resource.plural, problem)
        self.problem = problem

    def _next_pause(self, asked: float | None) -> float:
        pause = back_off(self._faults, PAUSES, self._chance())
        self._faults += 1
        return max(pause, asked or 0.0)

    def _list(self) -> None:
        with self._lock:
            self._put_while_listing.clear()
        found: dict[str, Object] = {}
        query = {"labelSelector": self._selector, "limit": str(PAGE)}
        while True:
            self.lists += 1
            page = self._api.call("GET", self.resource.path(self._namespace), query=query)
            for item in page.get("items") or []:
                found[item["metadata"]["name"]] = self._slim(item)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query = {**query, "continue": metadata["continue"]}
        with self._lock:
            before = self._objects
            for name in self._put_while_listing:
                if name in before:
                    found.setdefault(name, before[name])
            changed = [name for name, item in found.items() if before.get(name) != item]
            gone = [name for name in before if name not in found]
            self._objects = found
            self._version = str(metadata.get("resourceVersion") or "")
            self._listed_at = self._monotonic()
            self.problem = ""
            self._lock.notify_all()
        for name in changed:
            self._on_event(name, found[name])
        for name in gone:
            self._on_event(name, None)
        self._on_synced()

    def _follow(self) -> bool:
        """Watch until the watch ends. True if it was a good one."""
        began = self._monotonic()
        count = 0
        self.watches += 1
        watch = self._api.watch(self.resource.path(self._namespace), {
            "labelSelector": self._selector, "resourceVersion": self._version, "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS)}, SILENCE)
        with self._lock:
            self._watch = watch
            if self._closed:
                watch.close()
        if self.problem and not self._closed:  # the list of before is as good as new: the watch tells the rest
            with self._lock:
                self.problem = ""
                self._lock.notify_all()
            self._on_synced()
        try:
            for event in watch.events():
                count += event.get("type") != "BOOKMARK"
                self.take(event)
        except ApiAway:
            if not self._was_good(began, count):
                raise
        finally:
            with self._lock:
                self._watch = None
        return self._was_good(began, count)

    def _was_good(self, began: float, count: int) -> bool:
        return count > 0 or self._monotonic() - began >= GOOD_WATCH

    def take(self, event: Object) -> None:
        """One event of the watch. Raises ApiRefusal for one that is an error."""
        item = event.get("object") or {}
        kind = event.get("type")
        if kind == "ERROR":
            raise ApiRefusal(int(item.get("code") or 500), str(item.get("reason") or ""),
                             str(item.get("message") or "the watch failed"))
        metadata = item.get("metadata") or {}
        if kind == "BOOKMARK":
            self._version = str(metadata.get("resourceVersion") or self._version)
            return
        name = str(metadata.get("name"))
        with self._lock:
            self._version = str(metadata.get("resourceVersion") or self._version)
            if kind == "DELETED":
                self._objects.pop(name, None)
                self._deleted.append(metadata.get("uid"))
                self._put_while_listing.discard(name)
            else:
                self._objects[name] = self._slim(item)
        self._on_event(name, self._slim(item) if kind != "DELETED" else None)
