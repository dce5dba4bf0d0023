"""The journal of a keeper that calls the server where it can: what does not arrive so is fetched from its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainingservice.shared_folder.folder import FolderJournal
from trainingservice.shared_folder.storage_channel import TOKEN_FILE
from trainingservice.submit_host.disk import Disk
from trialkeeper import contract
from trialkeeper.whole_number import whole_number

#: So many seconds an entry may wait for its keeper to bring it home before it is fetched.
TAKE_OVER_AFTER = 10.0
#: Seconds between two looks at the journal of a keeper that calls the server itself.
LOOK_EVERY = 3.0

_Read = tuple[str, dict[str, Any], list[contract.Entry]]


class DirectFirstJournal(FolderJournal):
    """For ``CollectedJournals``. A keeper without a token calls nobody, so its journal is read at once and always."""

    def __init__(self, folder: Path, disk: Disk, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(folder, disk)
        self._monotonic = monotonic
        self._calls: bool | None = None
        self._held: list[contract.Entry] = []
        #: When the oldest of those that are held was first seen, or a keeper delivered last.
        self._since = 0.0
        self._next_look = float("-inf")
        self._delivered = 0

    def read(self) -> _Read:
        if self._calls is None:
            self._calls = self._disk.exists(self._folder / TOKEN_FILE)
        if not self._calls:
            return super().read()
        now = self._monotonic()
        if now < self._next_look:
            return "", {}, []
        self._next_look = now + LOOK_EVERY
        journal_id, keeper, entries = super().read()
        if not self._held:
            self._since = now
        self._held += entries
        delivered = self._accepted()
        if delivered > self._delivered:
            self._delivered, self._since = delivered, now
        last = self._held[-1:]
        self._held = [entry for entry in self._held if entry["n"] > delivered]
        if last and not self._held and last[0]["type"] == contract.ENDED:
            self._calls = False
            return journal_id, keeper, last  # once more, so that the collector knows that all has been said
        if not self._held or now - self._since < TAKE_OVER_AFTER:
            return "", {}, []
        held, self._held = self._held, []
        self._calls = False  # it does not get through: from now on all of it is fetched
        return journal_id, keeper, held

    def rewind(self) -> None:
        super().rewind()
        self._held = []

    def _accepted(self) -> int:
        return whole_number(self._disk.read(self._folder / contract.ACCEPTED_FILE) or b"") or 0
