"""Sends the signs of life of several keepers to the server in one request.

A server that has no such request is sent each of them alone: the answer of ``send_several`` says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import requests

from trialkeeper import contract

#: Seconds for which a server that has no such request is not asked for it again: it may be replaced by a newer one.
ASK_AGAIN_AFTER = 600.0


@dataclass(frozen=True)
class QuietReport:
    """A report without entries: its document (``keeper``, ``sent_at``, perhaps ``resources``)."""

    job_name: str
    token: str
    document: Mapping[str, Any]


class Asks(Protocol):
    """How one request is made: ``report_proxy.ask_server``, or a session's ``ask``."""

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> requests.Response: ...


class SeveralReports:
    """Remembers which servers take several reports at once. Thread-safe: at worst one of them is asked once more."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._takes_none_until: dict[str, float] = {}

    def send(self, url: str, reports: Sequence[QuietReport], ask: Asks) -> list[dict[str, Any]] | None:
        """The answers, in the order of the reports: each the document of an answer, with its ``status``.

        At most ``contract.MOST_SEVERAL_REPORTS``. None: send each of them alone, because the server does not take
        several, or does not take these. Raises requests.RequestException where it does not answer.
        """
        if self._monotonic() < self._takes_none_until.get(url, float("-inf")):
            return None
        first = reports[0]
        path = f"{contract.URL_PREFIX}trials/{quote(first.job_name, safe='')}/reports/several"
        body = json.dumps({"reports": [{**report.document, "job_name": report.job_name, "token": report.token}
                                       for report in reports]})
        answer = ask("POST", url.rstrip("/") + path, {"Authorization": f"Bearer {first.token}",
                                                      "Content-Type": "application/json"}, body.encode("ascii"))
        if answer.status_code in (404, 405):
            self._takes_none_until[url] = self._monotonic() + ASK_AGAIN_AFTER
        if answer.status_code != 200:
            return None
        try:
            document = answer.json()
        except ValueError:
            return None
        answers = document.get("answers") if isinstance(document, dict) else None
        if not isinstance(answers, list) or len(answers) != len(reports) or not all(
                isinstance(one, dict) and isinstance(one.get("status"), int) for one in answers):
            return None
        return [{"installation": document.get("installation"), **one} for one in answers]
