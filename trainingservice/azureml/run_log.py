"""The log of one job, read while it runs: what the keeper wrote into it for the server, and how the trial ended.

The way is that of the SDK's own ``jobs.stream``: the workspace's discovery address tells the run history, whose
details of a run name the log files with signed addresses.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from trainingservice.azureml.workspace import Workspace
from trainingservice.errors import TemporaryError
from trainingservice.rest.rest_client import TIMEOUT
from trainingservice.rest.timed_answers import TimedAdapter
from trainingservice.rest.told_json import read_json
from trialkeeper import contract
from trialkeeper.pod import MARK
from trialkeeper.whole_number import whole_number

logger = logging.getLogger(__name__)

#: Where a job's output is; the second is what older runs have.
LOG_FILES = ("user_logs/std_log.txt", "azureml-logs/70_driver_log.txt")
#: How much of an answer is read at one time, unpacked: a trial can print without end.
MOST_BYTES = 16 * 1024 * 1024


class RunHistory:
    """Details and logs of the runs of one workspace. May be used from several threads."""

    def __init__(self, workspace: Workspace, arm_path: str) -> None:
        self._workspace, self._arm_path = workspace, arm_path
        self._address = ""

    def details(self, name: str) -> Mapping[str, Any]:
        """Status, log files and error of a run. Raises TemporaryError."""
        url = f"{self._history()}/history/v1.0{self._arm_path}/runs/{quote(name, safe='')}/details"
        answer = self._get(url, params={"api-version": "v1.0"},
                           headers={"Authorization": f"Bearer {self._workspace.token()}"})
        return _object(answer)

    def log_address(self, details: Mapping[str, Any]) -> str:
        """The signed address of the job's output, a secret; "" while there is none."""
        files = details.get("logFiles")
        return next((str(files[name]) for name in LOG_FILES if name in files), "") if isinstance(files, dict) else ""

    def read(self, address: str, offset: int) -> bytes:
        """What a log has from a byte on, at most MOST_BYTES. Raises TemporaryError."""
        answer = self._get(address, offset, headers={"Range": f"bytes={offset}-"} if offset else {},
                           accepted=(200, 206, 416))
        return b"" if answer.status_code == 416 else answer.content

    def read_end(self, address: str) -> bytes:
        """The last that a log has, at most MOST_BYTES. Raises TemporaryError."""
        answer = self._get(address)
        size = whole_number(answer.headers.get("Content-Length", "")) or 0
        return answer.content if size <= MOST_BYTES else self.read(address, size - MOST_BYTES)

    def _history(self) -> str:
        if not self._address:
            found = _object(self._get(self._workspace.facts()["discovery_url"])).get("history")
            if not isinstance(found, str) or not found:
                raise TemporaryError(f"{self._workspace.where} does not say where its run history is.")
            self._address = found.rstrip("/")
        return self._address

    def _get(self, url: str, offset: int = 0, *, accepted: tuple[int, ...] = (200,), **more: Any) -> requests.Response:
        """An answer whose content is what was read of it. ``offset``: where that begins in the whole."""
        host = urlsplit(url).netloc
        try:
            with _session() as session, session.get(url, timeout=TIMEOUT, stream=True, **more) as answer:
                if answer.status_code in accepted:
                    answer._content = _first_of(answer, 0 if answer.status_code == 206 else offset)
        except requests.RequestException as error:  # its text holds the signed address
            raise TemporaryError(f"The run history of Azure ML at {host} cannot be reached "
                                 f"({type(error).__name__}).") from None
        if answer.status_code not in accepted:
            raise TemporaryError(f"The run history of Azure ML at {host} answers with HTTP {answer.status_code}.")
        return answer


def _session() -> requests.Session:
    """For one request."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, TimedAdapter())
    return session


def _first_of(answer: requests.Response, skipped: int) -> bytes:
    """The first MOST_BYTES behind the bytes that are skipped."""
    content = bytearray()
    for piece in answer.iter_content(64 * 1024):
        content += piece[skipped:]
        skipped = max(0, skipped - len(piece))
        if len(content) >= MOST_BYTES:
            break
    return bytes(content[:MOST_BYTES])


class LogJournal:
    """The journal of one attempt as marked lines of its job's log, for ``CollectedJournals``."""

    def __init__(self, history: RunHistory, workspace: Workspace, name: str) -> None:
        self._history, self._workspace, self._name = history, workspace, name
        self._address, self._offset = "", 0
        self._journal_id = ""
        self._is_again = False

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        if not self._address:
            self._address = self._history.log_address(self._history.details(self._name))
        entries: list[contract.Entry] = []
        if not self._address:
            return "", {}, []
        try:
            data = self._history.read(self._address, self._offset)
        except TemporaryError:
            self._address = ""  # signed for a while only: ask for a new one
            raise
        # of a line that is longer than that, which is none of the keeper's, nothing is waited for
        whole = data if len(data) >= MOST_BYTES and b"\n" not in data else data[:data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            document = _marked(line, MARK)
            if document is None:
                continue
            if "journal_id" in document and "n" not in document:
                self._begin(str(document["journal_id"]))
            elif not self._is_again:
                entries.append(document)
        return self._journal_id, {}, entries

    def _begin(self, journal_id: str) -> None:
        if self._journal_id in ("", journal_id):
            self._journal_id, self._is_again = journal_id, False
            return
        # the service has started the job again after its node was lost; without the server it cannot have known better
        logger.warning("the job %s was started a second time and is canceled: a trial runs once", self._name)
        self._is_again = True
        self._workspace.cancel(self._name)

    def rewind(self) -> None:
        self._offset = 0

    def acknowledge(self, number: int) -> None:
        """Nobody asks: what is in the log stays there."""

    def obey(self, orders: list[contract.Order]) -> None:
        if any(order.get("order") == contract.ORDER_STOP for order in orders):
            self._workspace.cancel(self._name)

    def cancel(self) -> None:
        self._workspace.cancel(self._name)


def _marked(line: str, mark: str) -> dict[str, Any] | None:
    if not line.startswith(mark):
        return None
    try:
        document = read_json(base64.b64decode(line.removeprefix(mark)))
    except ValueError:
        logger.info("a marked line of a job's log is damaged")
        return None
    return document if isinstance(document, dict) else None


def _object(answer: requests.Response) -> dict[str, Any]:
    try:
        document = read_json(answer.content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise TemporaryError(f"The run history of Azure ML at {urlsplit(answer.url).netloc} answered with something "
                             "that is not JSON.")
    return document
