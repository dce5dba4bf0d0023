"""The third way home: journals are read over SFTP, sent to the server, and acknowledged in the trials' folders.

For machines whose agent cannot be had while SSH works. The keeper sees the file ``accepted`` and counts
those entries as delivered; orders of the server are laid beside it, which it obeys within a second.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Callable, Sequence
from typing import Any

import paramiko

from trainingservice.keeper.agent_client import FolderState
from trainingservice.keeper.journal_delivery import deliver, keeper_document, new_entries
from trainingservice.rest.told_json import read_json
from trainingservice.ssh.connection import Connection
from trialkeeper import contract
from trialkeeper.whole_number import whole_number

#: Bytes of a journal that are read in one go.
MOST_AT_ONCE = 8 * 1024 * 1024


class JournalCollector:
    """Collects for one machine; remembers how far each journal was read. For one thread at a time."""

    def __init__(self, urls: Callable[[], tuple[str, ...]], clock: Callable[[], float] = time.time) -> None:
        self._urls, self._clock = urls, clock
        self._read: dict[str, tuple[int, int]] = {}  # folder -> (bytes that were delivered, last entry in them)
        self._owed: dict[str, int] = {}  # folder -> entry up to which the server has all, which its keeper must be told

    def collect(self, connection: Connection, folder: str, job_name: str, clock_ahead: float, *,
                delivers: bool = True) -> FolderState:
        """Deliver what is new of one attempt and tell its state by its files. Raises MachineProblem, OSError."""
        with connection.sftp() as sftp:
            exit_document = _read_object(sftp, posixpath.join(folder, contract.EXIT_FILE))
            trial = _read_object(sftp, posixpath.join(folder, contract.TRIAL_FILE))
            keeper = _read_object(sftp, posixpath.join(folder, contract.KEEPER_FILE))
            access = _read_object(sftp, posixpath.join(folder, contract.ACCESS_FILE))
            canceled = _read(sftp, posixpath.join(folder, contract.CANCELED_FILE)) is not None
            header, entries, offset = self._new_entries(sftp, folder)
            node = _read_object(sftp, posixpath.join(folder, contract.NODE_FILE))
            if not delivers:
                pass
            elif header and entries and access.get("token"):
                self._deliver(sftp, folder, job_name, str(access["token"]), header, keeper, entries, offset,
                              clock_ahead)
            elif folder in self._owed:
                self._acknowledge(sftp, folder)
        state = ("ended" if exit_document else "running" if trial else "starting" if header else
                 "canceled" if canceled else "absent")
        told: FolderState = {"node": node} if node else {}  # type: ignore[typeddict-item]
        return {**told, "state": state, "exit": exit_document or None, "keeper_pid": keeper.get("pid"),  # type: ignore[typeddict-item]
                "pid": trial.get("pid"), "working_directory": str(trial.get("working_directory") or ""),
                "delivered": False, "way_home": "files"}

    def _new_entries(self, sftp: paramiko.SFTPClient, folder: str) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
        """The journal's first line, whole entries that were not delivered yet, and where they end."""
        path = posixpath.join(folder, contract.JOURNAL_FILE)
        offset, last = self._read.get(folder, (0, 0))
        try:
            with sftp.open(path, "rb") as stream:
                header = stream.readline(65536)
                begin = max(offset, len(header))
                stream.seek(begin)
                data = stream.read(MOST_AT_ONCE)
        except FileNotFoundError:
            return {}, [], 0
        if not header.endswith(b"\n"):  # it has just been made, or the disk is full
            return {}, [], 0
        entries, size = new_entries(data)
        accepted = _read(sftp, posixpath.join(folder, contract.ACCEPTED_FILE)) or b""
        known = max(last, whole_number(accepted) or 0)
        return read_json(header), [entry for entry in entries if entry["n"] > known], begin + size

    def _deliver(self, sftp: paramiko.SFTPClient, folder: str, job_name: str, token: str, header: dict[str, Any],
                 keeper: dict[str, Any], entries: list[dict[str, Any]], offset: int, clock_ahead: float) -> None:
        sender = keeper_document(header["journal_id"], keeper)
        for reply in deliver(self._urls(), job_name, token, sender, entries, self._clock() + clock_ahead):
            if reply.is_gone:
                _write(sftp, posixpath.join(folder, contract.CANCELED_FILE), b"")
            elif reply.accepted is None:
                if reply.is_gap:
                    self._read.pop(folder, None)  # the server has less than was noted: read it all again
            else:
                if reply.accepted >= entries[-1]["n"]:
                    self._read[folder] = (offset, reply.accepted)
                self._owed[folder] = reply.accepted
                self._acknowledge(sftp, folder, reply.orders)

    def _acknowledge(self, sftp: paramiko.SFTPClient, folder: str, orders: Sequence[contract.Order] = ()) -> None:
        """Tell the keeper what the server has. Where that cannot be written, the next collection tries it again."""
        _write(sftp, posixpath.join(folder, contract.ACCEPTED_FILE), str(self._owed[folder]).encode())
        _write(sftp, posixpath.join(folder, contract.WAY_FILE), b"files")
        if orders:
            _write(sftp, posixpath.join(folder, contract.ORDERS_FILE), json.dumps(orders).encode())
        del self._owed[folder]


def _read(sftp: paramiko.SFTPClient, path: str) -> bytes | None:
    try:
        with sftp.open(path, "rb") as stream:
            return stream.read(MOST_AT_ONCE)
    except FileNotFoundError:
        return None


def _read_object(sftp: paramiko.SFTPClient, path: str) -> dict[str, Any]:
    text = _read(sftp, path)
    try:
        document = read_json(text) if text else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _write(sftp: paramiko.SFTPClient, path: str, content: bytes) -> None:
    partial = path + ".sftp"
    with sftp.open(partial, "wb") as stream:
        stream.write(content)
    sftp.chmod(partial, 0o600)
    sftp.posix_rename(partial, path)
