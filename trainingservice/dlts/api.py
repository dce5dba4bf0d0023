"""The calls to a DLTS dashboard. Source of paths, answers and words: the reference of the platform.

Three refusals arrive as 200, so success is decided by content. The account's key travels in each query string; it
is kept out of messages by ``RestClient`` and out of the HTTP library's own log by its filter.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trainingservice.dlts.config import DltsClusterSettings
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.rest.rest_client import TIMEOUT, LogInRefused, RestAnswer, RestClient
from trainingservice.words.shown_value import shown

#: A log-in refused so is tried again after so many seconds.
RETRY_AFTER_REFUSAL = 30.0
#: Longest name of an endpoint, and the ports one may open.
LONGEST_ENDPOINT_NAME, ENDPOINT_PORTS = 16, range(40000, 50000)
#: The cluster's word for a team that is not the account's. It says the same while it cannot ask its database.
ACCESS_DENIED = "Access Denied!"
#: The dashboard's words for what the settings name and it does not have.
NOT_FOUND = ("Cluster is not found", "Team is not found")


class DltsApi:
    """One account in one team on one cluster. May be used from several threads."""

    def __init__(self, settings: DltsClusterSettings) -> None:
        self._settings = settings
        self._client = RestClient(settings.dashboard, "The DLTS dashboard", hidden=("password", "token", "email"),
                                  ca_file=None if settings.ca_file is None else str(settings.ca_file))
        self.where = self._client.where
        self._lock = threading.Lock()
        self._no_page_before = 0.0
        self._cluster = "" if settings.cluster == ".default" else settings.cluster

    def close(self) -> None:
        self._client.close()

    @property
    def cluster(self) -> str:
        """The cluster's id, for what names it. The first use of .default asks the dashboard.

        Requests name the cluster as the settings do: the dashboard knows which one .default is, and its list of the
        team's clusters leaves out those that do not answer. Raises PermanentError, TemporaryError.
        """
        with self._lock:
            if not self._cluster:
                team = self.team()
                if team is None:
                    raise PermanentError(self._no_team())
                self._cluster = str(team["clusters"][0]["id"])
            return self._cluster

    # --- jobs ------------------------------------------------------------------------------

    def submit(self, body: Mapping[str, Any]) -> str:
        """The new job's id. Raises PermanentError with the reason, TemporaryError."""
        answer = self._call("POST", f"{self._of_cluster()}/jobs", dict(body))
        self._permanent_where_refused(answer)
        document = self._object(answer)
        if document.get("jobId"):
            return str(document["jobId"])
        reason = str(document.get("error") or "").removeprefix("Cannot create job!").strip()
        if reason in (ACCESS_DENIED, ""):
            self.check_database()
        if reason == ACCESS_DENIED:
            if self.team() is not None:  # the database was away for as long as the answer took
                raise TemporaryError(f"{self.where} refused the job, although the account is in team "
                                     f"{self._settings.team}. It is submitted again.")
            raise PermanentError(f"{self.where} refuses the job: {reason} {self._no_team()}")
        raise PermanentError(f"{self.where} refuses the job: {reason or 'it gave no reason'} Check that "
                             f"{self._settings.email} may use team {self._settings.team}.")

    def jobs(self, limit: int) -> list[dict[str, Any]]:
        """The account's newest jobs in this team, in one question.

        Raises TemporaryError also where the cluster could not ask its database: the dashboard then answers 200 with a
        list of nulls (its ``[].concat`` over the four lists of an empty document).
        """
        answer = self._ok(self._call("GET", f"{self._of_cluster('api/v2')}/teams/"
                                            f"{quote(self._settings.team, safe='')}/jobs", query={"limit": limit}))
        rows = answer.document()
        if not isinstance(rows, list):
            raise TemporaryError(f"{self.where} answered the request for its jobs without a list.")
        if any(not isinstance(row, dict) for row in rows):
            raise TemporaryError(f"{self.where} answers, but the cluster behind it cannot read its database. Trials "
                                 "continue. Tell an administrator of the cluster.")
        return [row for row in rows if row.get("jobId")]

    def check_database(self) -> None:
        """Raises TemporaryError where the cluster cannot ask its database."""
        self.jobs(1)

    def job(self, job_id: str) -> dict[str, Any] | None:
        """One job's record; None where the cluster's database was asked and does not have the job.

        An empty record says nothing by itself: it comes for unknown jobs, for jobs in a team that the account has left,
        and while the database is away. The short status, which is not about accounts, and the list tell them apart.
        Raises TemporaryError where the database cannot be asked.
        """
        answer = self._ok(self._call("GET", f"{self._of_cluster('api/v2')}/jobs/{quote(job_id, safe='')}"))
        document = self._object(answer)
        if document.get("jobStatus"):
            return document
        status = self._short_status(job_id)
        if status is not None and status.get("status"):
            return {"jobId": job_id, "jobStatus": status["status"]}
        self.check_database()  # a question that fails half way is "no such job" there, too
        return None

    def status_message(self, job_id: str) -> str:
        """What the platform says about the job's error; "" where it says nothing."""
        return str((self._short_status(job_id) or {}).get("message") or "")

    def _short_status(self, job_id: str) -> dict[str, Any] | None:
        answer = self._call("GET", f"{self._of_cluster()}/jobs/{quote(job_id, safe='')}/status")
        return None if answer.status == 404 else self._object(self._ok(answer))

    def kill(self, job_id: str) -> bool:
        """Ask for the job's end. False: refused, because it is unknown, another user's, or not active."""
        answer = self._ok(self._call("PUT", f"{self._of_cluster()}/jobs/{quote(job_id, safe='')}/status",
                                     {"status": "killing"}))
        return str(self._object(answer).get("result") or "").startswith("Success")

    def page(self, job_id: str) -> str:
        """Address of the job's page; "" while the dashboard does not say which cluster is meant.

        It is called for each job that is seen: where the question fails it is not put again for a while.
        """
        if time.monotonic() < self._no_page_before:
            return ""
        try:
            cluster = self.cluster
        except TrainingServiceError:
            self._no_page_before = time.monotonic() + RETRY_AFTER_REFUSAL
            return ""
        return (f"{self._settings.dashboard}job/{quote(self._settings.team, safe='')}/{quote(cluster, safe='')}/"
                f"{quote(job_id, safe='')}")

    # --- endpoints of a job ----------------------------------------------------------------

    def endpoints(self, job_id: str) -> list[dict[str, Any]]:
        """The ports of a job that are open or being opened."""
        rows = self._ok(self._call("GET", f"{self._of_cluster()}/jobs/{quote(job_id, safe='')}/endpoints")).document()
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    def open_port(self, job_id: str, name: str, port: int) -> None:
        """Have a port of a job opened on its node; it takes a while."""
        self._ok(self._call("POST", f"{self._of_cluster()}/jobs/{quote(job_id, safe='')}/endpoints",
                            {"endpoints": [{"name": name[:LONGEST_ENDPOINT_NAME], "podPort": port}]}))

    # --- look-ups --------------------------------------------------------------------------

    def check_log_in(self, timeout: tuple[float, float] = TIMEOUT) -> None:
        """Raises LogInRefused, TemporaryError."""
        self._object(self._ok(self._call("GET", "api/user", timeout=timeout)))

    def team(self, timeout: tuple[float, float] = TIMEOUT) -> dict[str, Any] | None:
        """Our team with its clusters (at least one) and GPU types; None where the account is in others only.

        Raises TemporaryError where the answer has no team at all: the dashboard leaves out clusters that do not answer.
        """
        rows = self._ok(self._call("GET", "api/teams", timeout=timeout)).document()
        teams = [row for row in rows if isinstance(row, dict) and row.get("clusters")] if isinstance(rows, list) else []
        if not teams:
            raise TemporaryError(f"{self.where} knows no team of {self._settings.email} at the moment: no cluster "
                                 "behind it answers, or the account is in no team. The request is sent again.")
        return next((row for row in teams if row.get("id") == self._settings.team), None)

    def gpu_types(self) -> list[str]:
        """The team's GPU types on the cluster. Entries without perNode and quota (user_quota, say) are none."""
        clusters = (self.team() or {}).get("clusters") or []
        gpus = next((entry.get("gpus") for entry in clusters if entry.get("id") == self.cluster), None)
        return [name for name, facts in (gpus or {}).items()
                if isinstance(facts, dict) and ("perNode" in facts or "quota" in facts)]

    # --- how -------------------------------------------------------------------------------

    def _of_cluster(self, version: str = "api") -> str:
        return f"{version}/clusters/{quote(self._settings.cluster, safe='')}"

    def _no_team(self) -> str:
        return f"{self.where} has no team {shown(self._settings.team)} for {self._settings.email}; correct team."

    def _call(self, method: str, path: str, document: Mapping[str, Any] | None = None, *,
              query: Mapping[str, Any] | None = None, timeout: tuple[float, float] = TIMEOUT) -> RestAnswer:
        secret = {"email": self._settings.email, "password": self._settings.access_key()}
        answer = self._client.call(
            method, path, params={**(query or {}), **secret}, timeout=timeout,
            body=None if document is None else json.dumps(dict(document)).encode(),
            headers={} if document is None else {"Content-Type": "application/json"})
        if answer.status == 403:
            raise LogInRefused(f"{self.where} does not accept the access key of {self._settings.email} "
                               f"({answer.shown()}). Trials wait. Copy the key from the dashboard (32 hexadecimal "
                               "digits, not the log-in password) into the cluster's settings. email must be written as "
                               "the dashboard shows it.", retry_after=RETRY_AFTER_REFUSAL)
        return answer

    def _permanent_where_refused(self, answer: RestAnswer) -> None:
        if answer.status in (404, 405):
            # only the dashboard's own words are about the job; a proxy's are not
            raise (PermanentError if answer.shown() in NOT_FOUND else TemporaryError)(self._unknown(answer))
        if not answer.ok and "html" in answer.content_type:
            raise TemporaryError(f"{self.where} did not answer as DLTS does (HTTP {answer.status}: {answer.shown()}). "
                                 "Check that the address is that of DLTS and not of a proxy or log-in page in front of "
                                 "it.")
        if answer.status == 413:
            raise PermanentError(f"{self.where} does not accept the job because it is larger than 1 MB.")
        if not answer.ok:
            raise PermanentError(f"{self.where} refuses the job (HTTP {answer.status}): {answer.shown()}")

    def _ok(self, answer: RestAnswer) -> RestAnswer:
        if answer.status in (404, 405):
            raise TemporaryError(self._unknown(answer), retry_after=RETRY_AFTER_REFUSAL)
        if not answer.ok:
            raise TemporaryError(f"{self.where} refuses the request (HTTP {answer.status}): {answer.shown()}")
        return answer

    def _unknown(self, answer: RestAnswer) -> str:
        said = answer.shown()
        if said == NOT_FOUND[0]:
            return f"{self.where} knows no cluster {shown(self._settings.cluster)}; correct cluster."
        if said == NOT_FOUND[1]:
            return self._no_team()
        return f"{self.where} does not know DLTS's interface under this address ({said}); correct dashboard."

    def _object(self, answer: RestAnswer) -> dict[str, Any]:
        document = answer.document()  # text/plain is JSON here, too
        if not isinstance(document, dict):
            raise TemporaryError(f"{self.where} answered with unexpected JSON. Check that it is DLTS.")
        return document
