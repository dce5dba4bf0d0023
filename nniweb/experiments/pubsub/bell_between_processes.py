"""Carries rings to the other processes of the installation and theirs to this one, over a channel layer (Redis).

A thread with an event loop of its own: whoever rings never waits, and it works the same in a web process and in a
worker. Rings carry no data and may be lost. So while Redis is away they are dropped, which is logged once, as is its
return; what changed meanwhile is found by the listeners' own looks at the database.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trainingservice.lasting_thread import LastingThread, in_short

logger = logging.getLogger(__name__)

#: The group that every process of the installation listens to.
GROUP = "bell"
#: Pause after a message, in seconds: what is rung meanwhile goes out together.
GATHER_SECONDS = 0.02
#: How often a process sends itself an empty message, in seconds: it must hear it.
PROBE_SECONDS = 5.0
#: Longest wait for Redis in one step, in seconds.
PATIENCE = 10.0
#: Longest wait for its connections to close, in seconds.
CLOSE_SECONDS = 1.0
#: A thread that was told to end and has not, is told again after so many seconds.
CANCEL_SECONDS = 0.5
#: Pause between two tries while Redis is away, in seconds.
RETRY_SECONDS = 1.0


class BellBetweenProcesses:
    """``ring`` may be called from any thread and does not wait. Its thread starts with the first ``start``."""

    def __init__(self, make_layer: Callable[[], Any], heard: Callable[[int, bool], None]) -> None:
        """``make_layer`` gives the channel layer; ``heard`` is called, in the bell's thread, for each experiment that
        another process rang for, with whether it needs a round of its worker, and must not block."""
        self._make_layer = make_layer
        self._heard = heard
        self._name = secrets.token_hex(8)
        self._guard = threading.Lock()
        #: Experiment -> whether it needs a round.
        self._rung: dict[int, bool] = {}
        #: Of the thread, while it runs.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_refused = False
        self._thread: LastingThread | None = None
        self._stopping = threading.Event()
        # --- of the loop alone
        self._wake = asyncio.Event()
        self._probe_heard = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Whether the last thing said about Redis was that it is there; None before anything was said.
        self._connected: bool | None = None

    @property
    def is_connected(self) -> bool:
        """Whether other processes hear this one, as far as is known."""
        return bool(self._connected)

    def start(self) -> None:
        """Hear the others from soon on. Harmless when repeated, and where no thread can be started: the next ring tries
        again.
        """
        with self._guard:
            if self._thread is None:
                stopping = threading.Event()
                thread = LastingThread("bell", partial(self._run, stopping), stopping=stopping)
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:
                    if not self._was_refused:
                        logger.warning("other processes are not notified of changes in this process: "
                                       "%s", in_short(error))
                    self._was_refused = True
                    return
                self._was_refused = False
                self._thread, self._stopping = thread, stopping
                atexit.register(self.close)

    def ring(self, experiment_pk: int, needs_round: bool = True) -> None:
        """Tell the other processes, soon."""
        self.start()
        with self._guard:
            first = not self._rung
            self._rung[experiment_pk] = needs_round or self._rung.get(experiment_pk, False)
            if first and self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the process is ending and has closed the loop
                    self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """End the thread; waits a few seconds at most. A later ring starts a new one."""
        with self._guard:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            self._stopping.set()
        if thread is None:
            return
        deadline = time.monotonic() + PATIENCE
        while thread.is_alive and time.monotonic() < deadline:
            if loop is not None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._cancel)  # again: the layer was seen to swallow one
            thread.join(CANCEL_SECONDS)
        atexit.unregister(self.close)

    # --- the thread ------------------------------------------------------------------------

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self, stopping: threading.Event) -> None:
        loop = asyncio.new_event_loop()
        try:
            self._wake, self._probe_heard, self._connected = asyncio.Event(), asyncio.Event(), None
            self._task = loop.create_task(self._stay_connected())
            with self._guard:
                if stopping.is_set():
                    self._task.cancel()
                else:
                    self._loop = loop
                    if self._rung:
                        self._wake.set()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(self._task)
        finally:
            with self._guard:
                if self._loop is loop:
                    self._loop = None
            loop.close()  # closes the layer's connections of this loop as well

    async def _stay_connected(self) -> None:
        while True:
            try:
                await self._exchange(self._make_layer())
            except Exception as error:  # of many kinds: the layer's, those of its client library, the system's
                self._say_away(error)
            self._drain()
            await asyncio.sleep(RETRY_SECONDS)

    async def _exchange(self, layer: Any) -> None:
        """Hear and speak until something fails."""
        hearing: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                channel = await layer.new_channel()
                await layer.group_add(GROUP, channel)
            hearing = asyncio.create_task(self._hear(layer, channel))
            await self._probe(layer)
            self._say_connected()
            await self._speak(layer)
        finally:
            await _disconnect(layer)
            if hearing is not None:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _speak(self, layer: Any) -> None:
        loop = asyncio.get_running_loop()
        next_probe = loop.time() + PROBE_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_probe - loop.time())):
                    await self._wake.wait()
            if self._wake.is_set():
                await self._send(layer, self._drain())
                await asyncio.sleep(GATHER_SECONDS)
            if loop.time() >= next_probe:
                await self._probe(layer)
                next_probe = loop.time() + PROBE_SECONDS

    async def _hear(self, layer: Any, channel: str) -> None:
        while True:
            message = await layer.receive(channel)
            if message.get("by") == self._name:
                self._probe_heard.set()
                continue
            for experiment_pk in message.get("experiments", ()):
                self._heard(experiment_pk, True)
            for experiment_pk in message.get("only_shown", ()):
                self._heard(experiment_pk, False)

    async def _probe(self, layer: Any) -> None:
        self._probe_heard.clear()
        await self._send(layer, {})
        async with asyncio.timeout(PATIENCE):
            await self._probe_heard.wait()

    async def _send(self, layer: Any, rung: Mapping[int, bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            await layer.group_send(GROUP, {
                "type": "rung", "by": self._name, "experiments": [pk for pk in rung if rung[pk]],
                "only_shown": [pk for pk in rung if not rung[pk]]})

    def _drain(self) -> dict[int, bool]:
        """What was rung since the last time."""
        with self._guard:
            rung, self._rung = self._rung, {}
            self._wake.clear()
        return rung

    def _say_connected(self) -> None:
        if self._connected is False:
            logger.warning("Redis can be reached again: changes made by other processes are seen immediately again")
        self._connected = True

    def _say_away(self, error: Exception) -> None:
        if self._connected is not False:
            logger.warning("Redis cannot be reached (%s); until it can, changes made by other processes are seen one "
                           "or two seconds later", str(error) or "it does not answer")
        self._connected = False


async def _disconnect(layer: Any) -> None:
    """End connections and subscriptions: the next try begins from nothing.

    Tried twice, because the layer waits for a task that it cancels, and under load that task was seen to miss it.
    """
    for _ in range(2):
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await layer.flush()
                return
