"""Readings of a machine's GPUs, kept fresh enough without asking nvidia-smi all the time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainingservice.errors import TemporaryError
from trainingservice.gpus.gpu_slots import GpuReading
from trainingservice.lasting_thread import LastingThread
from trainingservice.reasons import Reason

logger = logging.getLogger(__name__)

#: Seconds between two looks while a trial waits for GPUs or holds some, and otherwise.
BUSY_INTERVAL = 5.0
IDLE_INTERVAL = 60.0
#: A choice of GPUs is never made from a look older than this.
MAX_AGE = 2 * BUSY_INTERVAL


def reading_of(gpu: Mapping[str, Any]) -> GpuReading:
    """One GPU as the agent reads it, see ``trialkeeper.gpu_usage.read_gpus``."""
    total, used, others = (None if gpu.get(name) is None else int(gpu[name])
                           for name in ("memory_total", "memory_used", "others_bytes"))
    return GpuReading(int(gpu["index"]), int(gpu.get("processes") or 0), total, str(gpu.get("fault") or ""), used,
                      others, bool(gpu.get("exclusive")), gpu.get("parent"))


@dataclass(frozen=True)
class GpuLook:
    """What one look showed. ``error`` is "" or a sentence; ``ours`` are the GPUs this installation's trials held.
    ``at``: monotonic seconds; minus infinity where nobody answered.
    """

    gpus: tuple[dict[str, Any], ...]
    error: str
    ours: frozenset[int]
    at: float

    def message(self, machine: str) -> str:
        """What a person should know of the GPUs of ``machine``: why they cannot be read, or which do not work; "" for
        nothing.
        """
        if self.error:
            return Reason("gpus_unread", machine=machine, error=self.error)
        faulty = [{"gpu": int(gpu["index"]), "fault": str(gpu.get("fault") or ""),
                   "errors": int(gpu.get("memory_errors") or 0)}
                  for gpu in self.gpus if gpu.get("fault") or gpu.get("memory_errors")]
        return Reason("gpus_faulty", machine=machine, gpus=faulty) if faulty else ""

    def readings(self) -> list[GpuReading]:
        """In the form ``choose_gpus`` wants."""
        return [reading_of(gpu) for gpu in self.gpus]


class GpuWatch:
    """Looks at the GPUs in a thread of its own, because nvidia-smi may take seconds. Any thread may ask."""

    def __init__(self, ask: Callable[[], tuple[list[dict[str, Any]], str]], held: Callable[[], frozenset[int]],
                 matters: Callable[[], bool], on_look: Callable[[], None],
                 monotonic: Callable[[], float] = time.monotonic) -> None:
        """``ask``: one look. ``held``: GPUs booked now. ``matters``: a trial waits for GPUs or holds some.
        ``on_look``: called after each look of the thread.
        """
        self._ask = ask
        self._held = held
        self._matters = matters
        self._on_look = on_look
        self._monotonic = monotonic
        self._look: GpuLook | None = None
        self._looking = threading.Lock()
        self._stop = threading.Event()
        self._soon = threading.Event()
        self._thread = LastingThread("gpu-watch", self._run, stopping=self._stop)

    @property
    def latest(self) -> GpuLook | None:
        """The last look, of any age; None before the first."""
        return self._look

    def look(self, max_age: float = MAX_AGE) -> GpuLook:
        """A look that is at most ``max_age`` seconds old; makes one if need be. Raises TemporaryError."""
        with self._looking:  # those who come meanwhile take the same look
            last = self._look
            if last is not None and self._monotonic() - last.at <= max_age:
                return last
            # what is held before or after the question may be what it saw
            before = self._held()
            gpus, error = self._ask()
            self._look = GpuLook(tuple(gpus), error, before | self._held(), self._monotonic())
            return self._look

    def _note_failure(self, error: TemporaryError) -> None:
        """Who waits for GPUs is told why, and not that they are being read. The GPUs stay those that were seen."""
        last = self._look
        self._look = GpuLook(() if last is None else last.gpus, str(error), frozenset(), float("-inf"))

    def recent(self, max_age: float = MAX_AGE) -> GpuLook | None:
        """The last look if it is at most so old. Otherwise None, and the thread looks at once. Never blocks.

        Where nobody answered the last time, that look, and the thread looks at once.
        """
        last = self._look
        if last is not None and self._monotonic() - last.at <= max_age:
            return last
        self._soon.set()
        return last if last is not None and last.at == float("-inf") else None

    def start(self) -> None:
        """Begin to look at intervals. Harmless when repeated."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. A look under way goes on: ``join``."""
        self._stop.set()
        self._soon.set()

    def join(self, timeout: float = 10.0) -> None:
        """After ``stop``: wait for the thread's end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            last = self._look
            interval = BUSY_INTERVAL if self._matters() else IDLE_INTERVAL
            wanted = self._soon.is_set()
            self._soon.clear()
            due = last is None or self._monotonic() - last.at >= interval - 0.1
            if due or wanted:
                try:
                    # who asked while a look was under way is served by that look
                    self.look(max_age=0 if due else MAX_AGE)
                    self._on_look()
                except TemporaryError as error:
                    logger.info("the GPUs of a machine cannot be read now: %s", error)
                    self._note_failure(error)
            # short enough to notice that GPUs have begun to matter
            self._soon.wait(BUSY_INTERVAL)
