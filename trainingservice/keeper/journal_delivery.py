"""Hands a keeper's journal to the server where the keeper cannot call: the way home by files and by logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import requests

from trainingservice.keeper.keeper_exit import read_text
from trainingservice.keeper.report_proxy import ask_server
from trainingservice.keeper.signs_of_life import QuietReport, SeveralReports
from trainingservice.rest.told_json import read_json
from trialkeeper import contract
from trialkeeper.journal import without_position

logger = logging.getLogger(__name__)

#: Characters of the name of a keeper's machine that are told.
MOST_OF_HOST = 255


@dataclass(frozen=True)
class Reply:
    """What the server said to one report."""

    status: int
    document: Mapping[str, Any]

    @property
    def accepted(self) -> int | None:
        """The highest entry that is stored; None where the report was refused."""
        accepted = self.document.get("accepted")
        return accepted if self.status == 200 and isinstance(accepted, int) else None

    @property
    def orders(self) -> list[contract.Order]:
        orders = self.document.get("orders")
        return orders if isinstance(orders, list) else []

    @property
    def is_gone(self) -> bool:
        """Nobody wants the attempt any more: stop it."""
        return self.status == 410

    @property
    def is_gap(self) -> bool:
        """The server has less than was thought: send all of it again."""
        return self.document.get("error") == contract.ERROR_GAP


def keeper_document(journal_id: str, keeper: Mapping[str, Any]) -> contract.KeeperDocument:
    """Who reports. ``keeper``: what is known of it (KEEPER_FILE, which a trial may have written), {} for nothing."""
    pid = keeper.get("pid")
    return {"version": contract.PROTOCOL_VERSION, "host": read_text(keeper.get("host"))[:MOST_OF_HOST],
            "pid": int(pid) if isinstance(pid, int) and 0 <= pid < 2**31 else 0,
            "journal_id": journal_id, "replica": 0, "parameter_index": -1}


def deliver(urls: tuple[str, ...], job_name: str, token: str, keeper: contract.KeeperDocument,
            entries: Sequence[contract.Entry], now: float) -> Iterator[Reply]:
    """Send the entries in reports of a right size, one reply each; without entries a sign of life.

    Ends after the first reply without ``accepted``, and without a reply where no address answers.
    ``now``: the time by the clock of the trial's machine, seconds since 1970.
    """
    left = list(entries)
    first = True
    while left or first:
        first = False
        batch, size = 0, 0
        while batch < len(left) and (batch == 0 or size < contract.REPORT_BATCH_BYTES):
            size += len(json.dumps(left[batch]))
            batch += 1
        body = json.dumps({"keeper": keeper, "sent_at": now, "entries": left[:batch]})
        reply = _post(urls, job_name, token, body.encode("ascii"))
        if reply is None:
            return
        yield reply
        accepted = reply.accepted
        if accepted is None:
            logger.info("a collected journal of %s was answered with %d", job_name, reply.status)
            return
        left = [entry for entry in left[batch:] if entry["n"] > accepted]


def deliver_quiet(urls: tuple[str, ...], reports: Sequence[QuietReport],
                  several: SeveralReports) -> list[Reply | None]:
    """Signs of life, in one request where the server takes several; a reply each, None where no address answers."""
    for url in urls if len(reports) > 1 else ():
        try:
            answers = several.send(url, reports, ask_server)
        except requests.RequestException as error:
            logger.info("signs of life of %d keepers find no server at %s: %s", len(reports), url, error)
            continue
        if answers is not None:
            return [Reply(answer["status"], answer) for answer in answers]
        break
    else:
        if len(reports) > 1:
            return [None] * len(reports)  # each of them alone would only wait for the same addresses
    return [_post(urls, report.job_name, report.token, json.dumps({**report.document, "entries": []}).encode("ascii"))
            for report in reports]


def _post(urls: tuple[str, ...], job_name: str, token: str, body: bytes) -> Reply | None:
    path = f"{contract.URL_PREFIX}trials/{quote(job_name, safe='')}/reports"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    for url in urls:
        try:
            answer = ask_server("POST", url.rstrip("/") + path, headers, body)
            document = answer.json()
        except (requests.RequestException, ValueError) as error:
            logger.info("a collected journal of %s finds no server at %s: %s", job_name, url, error)
            continue
        if isinstance(document, dict) and document.get("installation"):
            return Reply(answer.status_code, document)
    return None


def new_entries(data: bytes) -> tuple[list[contract.Entry], int]:
    """The whole lines of a piece of a journal (without its first line), and how many bytes they are."""
    whole = data[:data.rfind(b"\n") + 1]
    return [read_json(without_position(line)) for line in whole.splitlines() if line], len(whole)
