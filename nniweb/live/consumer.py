"""One browser's websocket: it says what it watches and up to which revision it knows it."""

import asyncio
import contextlib
import functools
import json
import logging
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from nniweb.http.fields import LARGEST_REVISION
from nniweb.http.renderers import ExactJSONRenderer
from nniweb.live import frames
from nniweb.live.hub import hub

logger = logging.getLogger(__name__)

#: Shortest pause between two frames for a list of experiments, in seconds.
LIST_PAUSE = 0.5
#: Shortest pause between two frames about clusters, in seconds: each makes the page fetch its parts anew.
CLUSTERS_PAUSE = 1.0
#: How often a page is told that the server is there, in seconds: one that hears nothing connects again.
SIGN_OF_LIFE_SECONDS = 15.0
#: Rows of a list that are compared with what a page shows.
MOST_ROWS = 200
#: Things one browser watches at the same time.
MOST_WATCHES = 16


class _Watch:
    """One thing this browser watches."""

    def __init__(self, consumer: "LiveConsumer", topic: str, experiment_pk: int, shared: frames.Shared, seen: int,
                 trial_pk: int | None) -> None:
        self.topic = topic
        self.experiment_pk = experiment_pk
        self.trial_pk = trial_pk
        self.shared = shared
        self.beat: frames.Beat = (None, None, None)
        self.seen = seen
        self._consumer = consumer

    async def tell(self, frame: frames.Frame | None) -> None:
        await self._consumer.say({"topic": self.topic, **(frame or {"gone": True})})

    async def may_go_on(self) -> bool:
        person = self._consumer.scope["user"]
        return bool(await database_sync_to_async(frames.may_go_on)(person, self.experiment_pk))


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no type hints
    """Messages are JSON objects; see docs/live-protocol.md. Who is not signed in does not get here."""

    async def connect(self) -> None:
        self._watches: dict[str, _Watch] = {}
        self._list_task: asyncio.Task[None] | None = None
        self._clusters_task: asyncio.Task[None] | None = None
        self._life_task: asyncio.Task[None] | None = None
        await self.accept()
        await self.say({"hello": True})
        self._life_task = asyncio.get_running_loop().create_task(self._show_life())

    async def disconnect(self, code: int) -> None:
        for watch in self._watches.values():
            hub().unwatch(watch.experiment_pk, watch)
        for task in (self._list_task, self._clusters_task, self._life_task):
            if task is not None:
                task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            message = json.loads(text_data or "")
            topic, since = str(message["watch"]), int(message.get("since", 0))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            await self.say({"error": "a message must be a JSON object with the members watch and since"})
            return
        if topic in self._watches or len(self._watches) >= MOST_WATCHES:
            return
        since = min(max(since, 0), LARGEST_REVISION)
        kind, _, public_id = topic.partition("/")
        if not _may_be_id(public_id):
            public_id = ""  # there is none such, and a database may not take it
        if kind == "experiments":
            self._watch_list(_shown(message.get("rows")))
        elif kind == "clusters":
            self._watch_clusters()
        elif kind == "experiment":
            await self._watch_experiment(topic, public_id, since, frames.experiment_frame)
        elif kind == "log":
            await self._watch_experiment(topic, public_id, since, frames.log_frame)
        elif kind == "trial":
            await self._watch_trial(topic, public_id, since)
        else:
            await self.say({"topic": topic, "error": "there is no object of this name, or you may not watch it"})

    async def _watch_experiment(self, topic: str, public_id: str, since: int, read: Any) -> None:
        found = await database_sync_to_async(frames.may_watch_experiment)(self.scope["user"], public_id)
        if found is None:
            await self.say({"topic": topic, "gone": True})
            return
        pk, shared = found
        self._begin(_Watch(self, topic, pk, shared, since, None), _reader(read, pk))

    async def _watch_trial(self, topic: str, public_id: str, since: int) -> None:
        found = await database_sync_to_async(frames.may_watch_trial)(self.scope["user"], public_id)
        if found is None:
            await self.say({"topic": topic, "gone": True})
            return
        trial_pk, pk, shared = found
        self._begin(_Watch(self, topic, pk, shared, since, trial_pk), _reader(frames.trial_frame, trial_pk))

    def _begin(self, watch: _Watch, read: Any) -> None:
        self._watches[watch.topic] = watch
        hub().watch(watch.experiment_pk, watch, read)

    def _watch_list(self, shown: dict[str, int]) -> None:
        if self._list_task is None:
            self._list_task = asyncio.get_running_loop().create_task(self._follow_list(shown))

    async def _follow_list(self, shown: dict[str, int]) -> None:
        changes = hub().watch_list()
        pks: set[int] = set()
        gone: set[str] = set()
        listed: set[str] | None = None  # until it is known what changed before
        try:
            while True:
                if listed is not None and not pks and not gone:
                    pks = {await changes.get()}
                while not changes.empty():
                    pks.add(changes.get_nowait())
                try:
                    if listed is None:
                        changed, gone = await database_sync_to_async(frames.changed_since)(self.scope["user"], shown)
                        pks |= changed
                        listed = shown.keys() - gone
                    frame = await database_sync_to_async(frames.list_frame)(self.scope["user"], pks, listed)
                    frame["gone"] += sorted(gone)
                    pks, gone = set(), set()
                    listed.difference_update(frame["gone"])
                    listed.update(row["id"] for row in frame["experiments"])
                    if frame["experiments"] or frame["gone"]:
                        await self.say({"topic": "experiments", **frame})
                except Exception:
                    logger.exception("a frame about the list of experiments could not be read; it is read again")
                await asyncio.sleep(LIST_PAUSE)
        finally:
            hub().unwatch_list(changes)

    def _watch_clusters(self) -> None:
        if self._clusters_task is None:
            self._clusters_task = asyncio.get_running_loop().create_task(self._follow_clusters())

    async def _follow_clusters(self) -> None:
        """Frames without content: a page of clusters takes its parts anew, by the rules of who sees what."""
        changed = hub().watch_clusters()
        try:
            while True:
                await self.say({"topic": "clusters"})
                await asyncio.sleep(CLUSTERS_PAUSE)
                await changed.wait()
                changed.clear()
        finally:
            hub().unwatch_clusters(changed)

    async def _show_life(self) -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_SECONDS)
            await self.say({"alive": True})

    async def say(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the browser has gone in the meantime
            await self.send(text_data=ExactJSONRenderer().render(message).decode())


def _shown(rows: Any) -> dict[str, int]:
    """The ids and revisions of the rows a page shows, as far as they can be understood."""
    if not isinstance(rows, dict):
        return {}
    return {str(public_id): revision for public_id, revision in list(rows.items())[:MOST_ROWS]
            if isinstance(revision, int) and _may_be_id(public_id)}


def _may_be_id(text: str) -> bool:
    return text.isascii() and text.isalnum()


@functools.lru_cache(maxsize=10_000)
def _reader(read: Any, pk: int) -> Any:
    """``read`` for one primary key: the same object each time, so that the hub can tell who reads the same."""
    return functools.partial(read, pk)
