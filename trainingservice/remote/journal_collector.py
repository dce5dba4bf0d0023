"""The third way home: journals are read over SFTP, sent to the server, and acknowledged in the trials' folders.

For machines whose agent cannot be had while SSH works. The keeper sees the file ``accepted`` and counts
those entries as delivered; orders of the server are laid beside it, which it obeys within a second.
"""

from __future__ import annotations

import json
import logging
import posixpath
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import paramiko
import requests

from trainingservice.agent_client import FolderState
from trainingservice.relay_desk import ask_server
from trainingservice.remote.connection import Connection
from trialkeeper import contract
from trialkeeper.journal import without_position

logger = logging.getLogger(__name__)

#: Bytes of a journal that are read in one go.
MOST_AT_ONCE = 8 * 1024 * 1024


class JournalCollector:
    """Collects for one machine; remembers how far each journal was read. For one thread at a time."""

    def __init__(self, urls: Callable[[], tuple[str, ...]], clock: Callable[[], float] = time.time) -> None:
        self._urls, self._clock = urls, clock
        self._read: dict[str, tuple[int, int]] = {}  # folder -> (bytes that were delivered, last entry in them)

    def collect(self, connection: Connection, folder: str, job_name: str, clock_ahead: float) -> FolderState:
        """Deliver what is new of one attempt and tell its state by its files. Raises MachineProblem, OSError."""
        with connection.sftp() as sftp:
            exit_document = _read_object(sftp, posixpath.join(folder, contract.EXIT_FILE))
            trial = _read_object(sftp, posixpath.join(folder, contract.TRIAL_FILE))
            keeper = _read_object(sftp, posixpath.join(folder, contract.KEEPER_FILE))
            access = _read_object(sftp, posixpath.join(folder, contract.ACCESS_FILE))
            canceled = _read(sftp, posixpath.join(folder, contract.CANCELED_FILE)) is not None
            header, entries, offset = self._new_entries(sftp, folder)
            if header and entries and access.get("token"):
                self._deliver(sftp, folder, job_name, str(access["token"]), header, keeper, entries, offset,
                              clock_ahead)
        state = ("ended" if exit_document else "running" if trial else "starting" if header else
                 "canceled" if canceled else "absent")
        return {"state": state, "exit": exit_document or None, "keeper_pid": keeper.get("pid"),  # type: ignore[typeddict-item]
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
        whole = data[:data.rfind(b"\n") + 1]
        entries = [json.loads(without_position(line)) for line in whole.splitlines() if line]
        accepted = _read(sftp, posixpath.join(folder, contract.ACCEPTED_FILE)) or b""
        known = max(last, int(accepted) if accepted.strip().isdigit() else 0)
        return json.loads(header), [entry for entry in entries if entry["n"] > known], begin + len(whole)

    def _deliver(self, sftp: paramiko.SFTPClient, folder: str, job_name: str, token: str, header: dict[str, Any],
                 keeper: dict[str, Any], entries: list[dict[str, Any]], offset: int, clock_ahead: float) -> None:
        document = {"version": contract.PROTOCOL_VERSION, "host": keeper.get("host", ""), "pid": keeper.get("pid") or 0,
                    "journal_id": header["journal_id"], "replica": 0, "parameter_index": -1}
        while entries:
            batch, size = 0, 0
            while batch < len(entries) and (batch == 0 or size < contract.REPORT_BATCH_BYTES):
                size += len(json.dumps(entries[batch]))
                batch += 1
            body = json.dumps({"keeper": document, "sent_at": self._clock() + clock_ahead, "entries": entries[:batch]})
            answer = self._post(job_name, token, body.encode("ascii"))
            if answer is None:
                return
            status, reply = answer
            if status == 410:
                _write(sftp, posixpath.join(folder, contract.CANCELED_FILE), b"")
                return
            if status != 200 or not isinstance(reply.get("accepted"), int):
                if reply.get("error") == contract.ERROR_GAP:
                    self._read.pop(folder, None)  # the server has less than was noted: read it all again
                logger.info("a collected journal of %s was answered with %d", job_name, status)
                return
            accepted = int(reply["accepted"])
            _write(sftp, posixpath.join(folder, contract.ACCEPTED_FILE), str(accepted).encode())
            _write(sftp, posixpath.join(folder, contract.WAY_FILE), b"files")
            if reply.get("orders"):
                _write(sftp, posixpath.join(folder, contract.ORDERS_FILE), json.dumps(reply["orders"]).encode())
            entries = [entry for entry in entries[batch:] if entry["n"] > accepted]
            if not entries:
                self._read[folder] = (offset, accepted)

    def _post(self, job_name: str, token: str, body: bytes) -> tuple[int, dict[str, Any]] | None:
        path = f"{contract.URL_PREFIX}trials/{quote(job_name, safe='')}/reports"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for url in self._urls():
            try:
                answer = ask_server("POST", url.rstrip("/") + path, headers, body)
                document = answer.json()
            except (requests.RequestException, ValueError) as error:
                logger.info("a collected journal of %s finds no server at %s: %s", job_name, url, error)
                continue
            if isinstance(document, dict) and document.get("installation"):
                return answer.status_code, document
        return None


def _read(sftp: paramiko.SFTPClient, path: str) -> bytes | None:
    try:
        with sftp.open(path, "rb") as stream:
            return stream.read(MOST_AT_ONCE)
    except FileNotFoundError:
        return None


def _read_object(sftp: paramiko.SFTPClient, path: str) -> dict[str, Any]:
    text = _read(sftp, path)
    try:
        document = json.loads(text) if text else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _write(sftp: paramiko.SFTPClient, path: str, content: bytes) -> None:
    partial = path + ".sftp"
    with sftp.open(partial, "wb") as stream:
        stream.write(content)
    sftp.chmod(partial, 0o600)
    sftp.posix_rename(partial, path)
