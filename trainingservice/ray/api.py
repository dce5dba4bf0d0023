"""The calls to a Ray cluster's dashboard: its Jobs API, and the nodes of its state API.

Paths, answers and words are those of Ray's own ``dashboard/modules/job`` (version 4 of the API).
What the agent behind the dashboard refuses comes as HTTP 500 with a traceback in newer versions, and as 400 in older
ones, so refusals are told apart by their text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.ray.config import RayClusterSettings
from trainingservice.rest.rest_client import TIMEOUT, LogInRefused, RestAnswer, RestClient, ServerFault

#: A log-in refused so is tried again after so many seconds.
RETRY_AFTER_REFUSAL = 30.0
#: The version of the Jobs API that has all that is used here: resources of the entrypoint, and DELETE.
LEAST_VERSION = 4
#: The first version of Ray that tells why a job failed as a word (``error_type``). The field is older, and was empty.
LEAST_RAY = (2, 50)
#: How many nodes are asked for. Ray's own limit of one answer is 10,000.
MOST_NODES = 10_000
#: Characters of a traceback's last line that are shown.
_LONGEST_REASON = 400


class NameTaken(PermanentError):
    """The cluster has a job of this submission id."""


class RayApi:
    """One cluster. May be used from several threads."""

    def __init__(self, settings: RayClusterSettings) -> None:
        self._address = settings.address
        self._client = RestClient(f"{settings.address}/", "Ray", refused=last_line,
                                  ca_file=None if settings.ca_file is None else str(settings.ca_file))
        self.where = self._client.where
        self._headers = settings.request_headers()

    def close(self) -> None:
        self._client.close()

    def page(self, submission_id: str) -> str:
        """Address of the job's page on the dashboard."""
        return f"{self._address}/#/jobs/{quote(submission_id, safe='')}"

    # --- jobs ------------------------------------------------------------------------------

    def submit(self, body: Mapping[str, Any]) -> None:
        """Raises NameTaken, PermanentError where the job is refused, TemporaryError."""
        try:
            answer = self._call("POST", "api/jobs/", body)
        except ServerFault as fault:
            # the agent's own 400, in the traceback of the head that asked it. The others are no word about this job:
            # a log-in between the two, or too many requests
            refusal = re.search(r"Request failed with status code (?!401|403|408|429)4\d\d", fault.answer.text)
            if refusal is None and "already exists" not in fault.answer.text:
                raise
            answer = fault.answer
        if answer.ok:
            self._object(answer)
            return
        if re.search(r"Job with submission_id \S+ already exists", answer.text):
            raise NameTaken(f"{self.where} has a job of this submission id already.")
        self._unless_ray(answer)
        raise PermanentError(f"{self.where} refuses the job (HTTP {answer.status}): {last_line(answer)}")

    def job(self, submission_id: str, timeout: tuple[float, float] = TIMEOUT) -> dict[str, Any] | None:
        """One job as the cluster describes it; None where it has none of this id. Raises TemporaryError."""
        answer = self._call("GET", f"api/jobs/{quote(submission_id, safe='')}", timeout=timeout)
        return None if self._is_unknown(answer) else self._object(self._ok(answer))

    def jobs(self) -> list[dict[str, Any]]:
        """All that were submitted, ended ones too. Raises TemporaryError."""
        rows = self._ok(self._call("GET", "api/jobs/")).document()
        if not isinstance(rows, list):
            raise TemporaryError(f"{self.where} answered the request for its jobs without a list.")
        return [row for row in rows if isinstance(row, dict) and row.get("submission_id")]

    def stop(self, submission_id: str) -> bool:
        """Ask for a job's end. False: there is none of this id. Raises TemporaryError."""
        answer = self._call("POST", f"api/jobs/{quote(submission_id, safe='')}/stop")
        return not self._is_unknown(answer) and bool(self._ok(answer))

    def delete(self, submission_id: str) -> bool:
        """Remove what the cluster has of an ended job. False: there is none. Raises TemporaryError, also where it has
        not ended."""
        try:
            answer = self._call("DELETE", f"api/jobs/{quote(submission_id, safe='')}")
        except ServerFault as fault:
            if "non-terminal state" in fault.answer.text:
                raise TemporaryError(f"The job {submission_id} has not ended on Ray.") from fault
            raise
        return not self._is_unknown(answer) and bool(self._ok(answer))

    def log(self, submission_id: str) -> str:
        """What the job's own process and its shell printed; "" where there is none. Raises TemporaryError."""
        answer = self._call("GET", f"api/jobs/{quote(submission_id, safe='')}/logs")
        return "" if self._is_unknown(answer) else str(self._object(self._ok(answer)).get("logs") or "")

    # --- look-ups --------------------------------------------------------------------------

    def version(self, timeout: tuple[float, float] = TIMEOUT) -> dict[str, Any]:
        """``version`` of the Jobs API, ``ray_version`` and (in newer versions) ``session_name``."""
        return self._object(self._ok(self._call("GET", "api/version", timeout=timeout)))

    def session(self) -> str:
        """Changes when the head is started without the memory of the last one.

        Versions that do not name their session have the id of the head node, which changes with each start of a head.
        """
        return str(self.version().get("session_name") or "") or next(
            (str(row.get("node_id")) for row in self._node_rows(TIMEOUT) if row.get("is_head_node")), "")

    def nodes(self, timeout: tuple[float, float] = TIMEOUT) -> list[dict[str, float]]:
        """What each living node has in all (CPU, GPU, memory in bytes, custom resources)."""
        return [{str(name): float(amount) for name, amount in row["resources_total"].items()
                 if isinstance(amount, int | float)}
                for row in self._node_rows(timeout) if isinstance(row.get("resources_total"), dict)]

    # --- how -------------------------------------------------------------------------------

    def _node_rows(self, timeout: tuple[float, float]) -> list[dict[str, Any]]:
        """The living nodes, as the cluster describes them."""
        answer = self._call("GET", "api/v0/nodes", query={"detail": "true", "limit": MOST_NODES}, timeout=timeout)
        data = self._object(self._ok(answer)).get("data")
        found = data.get("result") if isinstance(data, dict) else None
        rows = found.get("result") if isinstance(found, dict) else None
        if not isinstance(rows, list):
            raise TemporaryError(f"{self.where} answered the request for its nodes without a list.")
        return [row for row in rows if isinstance(row, dict) and row.get("state") == "ALIVE"]

    def _call(self, method: str, path: str, document: Mapping[str, Any] | None = None, *,
              query: Mapping[str, Any] | None = None, timeout: tuple[float, float] = TIMEOUT) -> RestAnswer:
        headers = dict(self._headers)
        if document is not None:
            headers["Content-Type"] = "application/json"
        answer = self._client.call(method, path, params=query, headers=headers, timeout=timeout,
                                   body=None if document is None else json.dumps(dict(document)).encode())
        if answer.status in (401, 403):
            raise LogInRefused(f"{self.where} does not accept the log-in ({answer.shown()}). Trials wait. Give the "
                               "cluster's token (RAY_AUTH_TOKEN) in token, or what the proxy in front of it wants in "
                               "headers.", retry_after=RETRY_AFTER_REFUSAL)
        return answer

    def _is_unknown(self, answer: RestAnswer) -> bool:
        """Whether Ray itself, and not a proxy in front of it, says that it has no such job."""
        return answer.status == 404 and re.search(r"Job \S+ does not exist", answer.text) is not None

    def _ok(self, answer: RestAnswer) -> RestAnswer:
        if answer.ok:
            return answer
        self._unless_ray(answer)
        raise TemporaryError(f"{self.where} refuses the request (HTTP {answer.status}): {last_line(answer)}")

    def _unless_ray(self, answer: RestAnswer) -> None:
        if answer.status in (404, 405) or "html" in answer.content_type:
            raise TemporaryError(f"{self.where} does not know Ray's Jobs API (HTTP {answer.status}: {answer.shown()}). "
                                 "Check that address is that of Ray's dashboard, started with ray[default], and not of "
                                 "a proxy or log-in page in front of it.", retry_after=RETRY_AFTER_REFUSAL)

    def _object(self, answer: RestAnswer) -> dict[str, Any]:
        document = answer.document()
        if not isinstance(document, dict):
            raise TemporaryError(f"{self.where} answered with unexpected JSON. Check that it is Ray's dashboard.")
        return document


def last_line(answer: RestAnswer) -> str:
    """What a traceback says in its end, for a sentence."""
    if "html" in answer.content_type:
        return answer.shown()
    return last_line_of(answer.text)


def last_line_of(text: str) -> str:
    """The last line of a text, a traceback say, in a length for a sentence."""
    lines = [line.strip() for line in text[-20_000:].splitlines() if any(map(str.isalnum, line))]
    return lines[-1][:_LONGEST_REASON] if lines else ""
