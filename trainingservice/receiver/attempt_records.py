"""What a ``KeeperReceiver`` knows of each attempt: in memory, and on disk where it was given a folder.

On disk there is one file per attempt, to which each change is appended as one JSON line and
synchronised before it counts; a line cut off by a crash is dropped when the file is read again.
Tokens are stored as SHA-256 hashes only.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainingservice.receiver.report_reading import ReadReport, RefusedReport
from trialkeeper import contract
from trialkeeper.durable_files import flush_folder
from trialkeeper.whole_number import whole_number


def token_hash(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class AttemptRecord:
    """One attempt. Methods may be called from several threads; each change is durable when its method returns."""

    def __init__(self, job_name: str, path: Path | None = None) -> None:
        self.job_name = job_name
        self.token_hashes: set[str] = set()
        #: Who owns the attempt: the first journal whose entries were taken; None before.
        self.journal_id: str | None = None
        self.accepted = 0
        self.entries: list[contract.Entry] = []
        self.rejected: list[contract.Rejected] = []
        self.document: contract.JobDocument | None = None
        self.code_archive: Path | None = None
        #: The last reading of the machine, None before the first.
        self.resources: dict[str, Any] | None = None
        self.gone = False
        self._stop_reason: str | None = None
        self._freeze_reason: str | None = None
        self._parameters: dict[int, str] = {}
        self._awaited_index = -1  # of the parameters the trial asked for last; -1: none
        self._lock = threading.RLock()
        self._path = path
        if path is not None and path.exists():
            for change in _read_lines(path):
                self._apply(change)

    # --- changes ---------------------------------------------------------------------------

    def add_token(self, token: str) -> None:
        self._change({"token": token_hash(token)})

    def expect(self, document: contract.JobDocument, code_archive: Path | None) -> None:
        self._change({"document": document, "code_archive": str(code_archive) if code_archive else None})

    def order_stop(self, reason: str) -> None:
        self._change({"stop": reason})

    def order_freeze(self, reason: str) -> None:
        self._change({"freeze": reason})

    def order_parameters(self, index: int, text: str) -> None:
        self._change({"parameters": {"index": index, "text": text}})

    def withdraw(self) -> None:
        self._change({"gone": True})

    def take(self, report: ReadReport) -> list[contract.Entry]:
        """Store what is new of a report and return it. Raises RefusedReport: claimed (409), Gap, gone (410)."""
        with self._lock:
            if self.gone:
                raise RefusedReport(410, contract.ERROR_GONE, f"attempt {self.job_name} is no longer wanted")
            if report.replica:
                return []
            if self.journal_id not in (None, report.journal_id):
                raise RefusedReport(409, contract.ERROR_CLAIMED,
                                    f"attempt {self.job_name} is already run by another keeper")
            new = report.after(self.accepted)
            if new.accepted > self.accepted:
                rejected = [wrong for wrong in report.rejected if wrong["n"] > self.accepted]
                self._change({"journal": report.journal_id, "accepted": new.accepted, "entries": new.entries,
                              "rejected": rejected})
            if report.resources is not None:
                self.resources = report.resources
            return new.entries

    def orders(self, report: ReadReport) -> list[contract.Order]:
        """What the keeper that sent this report has to be told; orders are repeated until they show effect."""
        with self._lock:
            orders: list[contract.Order] = []
            if self._stop_reason is not None:
                orders.append({"order": contract.ORDER_STOP, "reason": self._stop_reason})
            elif self._freeze_reason is not None:
                orders.append({"order": contract.ORDER_FREEZE, "reason": self._freeze_reason})
            if not report.replica:
                orders += [{"order": contract.ORDER_PARAMETERS, "index": index, "text": self._parameters[index]}
                           for index in sorted(self._parameters) if index > report.keeper["parameter_index"]]
            return orders

    def parameters_are_due(self, report: ReadReport) -> bool:
        """Whether the trial waits for parameters that nobody has ordered yet."""
        with self._lock:
            return self._awaited_index > report.keeper["parameter_index"] \
                and self._awaited_index not in self._parameters

    # --- storage ---------------------------------------------------------------------------

    def _change(self, change: dict[str, Any]) -> None:
        with self._lock:
            if self._path is not None:
                _append_line(self._path, change)
            self._apply(change)

    def _apply(self, change: dict[str, Any]) -> None:
        if "token" in change:
            self.token_hashes.add(change["token"])
        if "document" in change:
            self.document = change["document"]
            self.code_archive = Path(change["code_archive"]) if change["code_archive"] else None
        if "stop" in change:
            self._stop_reason = change["stop"]
        if "freeze" in change:
            self._freeze_reason = change["freeze"]
        if "parameters" in change:
            self._parameters[change["parameters"]["index"]] = change["parameters"]["text"]
        if "gone" in change:
            self.gone = True
        if "journal" in change:
            self.journal_id = change["journal"]
            self.accepted = change["accepted"]
            self.entries.extend(change["entries"])
            self.rejected.extend(change["rejected"])
            if self.document is not None and self.document.get("multi_phase"):
                for entry in change["entries"]:
                    if entry.get("kind") == contract.REQUEST_PARAMETER:
                        asked = whole_number(entry["value"])
                        self._awaited_index = self._awaited_index if asked is None else asked


def _append_line(path: Path, change: dict[str, Any]) -> None:
    line = json.dumps(change).encode() + b"\n"
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{path} could be written in part only: is the disk full?")
            os.fsync(descriptor)
            if is_new:
                flush_folder(str(path.parent))
        except OSError:
            os.ftruncate(descriptor, size)  # half a line must not stand before the next one
            raise
    finally:
        os.close(descriptor)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    for line in content[:whole].splitlines():
        yield json.loads(line)
