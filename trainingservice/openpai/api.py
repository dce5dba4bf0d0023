"""The calls to an OpenPAI cluster's REST server (API version 2). Source of paths, answers and words: its reference."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.limited_yaml import YamlRefused, read_yaml
from trainingservice.openpai.config import OpenPaiClusterSettings
from trainingservice.openpai.document_text import document_text
from trainingservice.openpai.states import of_openpai
from trainingservice.openpai.submission_limit import SubmissionLimit, pause_asked_for, why_it_waits
from trainingservice.openpai.token_doubt import TokenDoubt, TokenDoubted
from trainingservice.polling.service import MustWait
from trainingservice.rest.rest_client import TIMEOUT, LogInRefused, RestAnswer, RestClient, ServerFault, TooManyCalls
from trainingservice.rest.told_json import read_json
from trainingservice.words.shown_value import shown

#: Jobs that one question about all of them brings at most, the newest first.
MOST_LISTED = 1000
#: A log-in refused so is tried again after so many seconds.
RETRY_AFTER_REFUSAL = 30.0
#: The HiveD scheduler refuses what goes beyond the virtual cluster's quota like a document that is wrong. A request
#: that no SKU can meet is refused in other words, and for good.
_NO_QUOTA = re.compile(r"\bquota\b|exceed\w* .*\b(vc|virtual cluster)\b", re.IGNORECASE | re.DOTALL)
#: Where that is looked for, in characters: the expression takes the square of a text's length.
_BEGINNING = 2000
#: Seconds until a job is tried again that there was no quota for.
QUOTA_PAUSE = 60.0


class NameTaken(PermanentError):
    """There is a job of this name already."""


class NoSuchJob(Exception):
    """The cluster says that there is no job of this name."""


@dataclass(frozen=True)
class Refusal:
    """The cluster's words in an answer that is an error: ``{code, message}``, either of which may be missing."""

    code: str
    message: str

    @classmethod
    def of(cls, answer: RestAnswer) -> Refusal:
        try:
            document = read_json(answer.text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            return cls("", answer.shown())
        return cls(str(document.get("code") or ""), _readable(document.get("message")))


def _readable(message: Any) -> str:
    """A message is a sentence, or a JSON text with the schema's errors."""
    text = message if isinstance(message, str) else json.dumps(message)
    try:
        errors = read_json(text)
    except ValueError:
        return text
    if not isinstance(errors, list):
        return text
    return "; ".join(f"{error.get('dataPath') or 'the document'} {error.get('message')}"
                     for error in errors if isinstance(error, dict)) or text


class OpenPaiApi:
    """One account on one cluster. May be used from several threads."""

    def __init__(self, settings: OpenPaiClusterSettings) -> None:
        self._settings = settings
        self._client = RestClient(f"{settings.host}/rest-server/", "OpenPAI",
                                  ca_file=None if settings.ca_file is None else str(settings.ca_file),
                                  refused=lambda answer: Refusal.of(answer).message,
                                  pause_asked_for=pause_asked_for)
        self.where = self._client.where
        self._limit = SubmissionLimit()
        self._doubt = TokenDoubt()
        self._lock = threading.Lock()
        self._token = settings.token.get_secret_value() if settings.token is not None else ""

    def close(self) -> None:
        self._client.close()

    # --- jobs ------------------------------------------------------------------------------

    def wait_for_turn(self) -> None:
        """Raises MustWait while the account has used up what it may submit in this time."""
        if (turn := self._limit.waits()) is not None:
            raise MustWait(of_openpai("platform_quota", why_it_waits(self.where, self._settings.username, *turn)),
                           retry_after=turn[0])

    def submit(self, document: Mapping[str, Any]) -> None:
        """Raises NameTaken, PermanentError with what is wrong with the document, MustWait (quota, the account's
        submissions of this hour), TemporaryError.
        """
        try:
            answer = self._call("POST", "api/v2/jobs", body=document_text(document),
                                headers={"Content-Type": "text/yaml"})
        except (TooManyCalls, ServerFault) as fault:
            self._limit.heard(fault.answer)
            if isinstance(fault, TooManyCalls):
                self.wait_for_turn()
            raise
        self._limit.heard(answer)
        if self._is_said_by_openpai(answer):
            return
        refusal, name = Refusal.of(answer), document["name"]
        if answer.status == 409:
            raise NameTaken(f"{self.where} has a job named {name} of user {self._settings.username} already, which "
                            "does not belong to this trial. Rerun the trial, so that its job gets another name.")
        if answer.status == 413:
            raise PermanentError(f"{self.where} does not accept the job document because it is too large (more than "
                                 "about 100 KB). Shorten openpaiConfig.")
        if answer.status == 403 and "storage" in refusal.message.lower():
            raise PermanentError(f"{self.where} does not let user {self._settings.username} use a storage of the job "
                                 f"({_storage_names(document)}): {refusal.message} Correct storageConfigName, "
                                 "storages, or extras.storages of openpaiConfig.")
        if answer.status == 403:
            queue = (document.get("defaults") or {}).get("virtualCluster") or "default"
            raise PermanentError(f"{self.where} does not let user {self._settings.username} use the virtual cluster "
                                 f"{shown(queue)}, or there is none of this name: {refusal.message} Correct "
                                 "virtualCluster.")
        if refusal.code == "NoStorageError":
            raise PermanentError(f"{self.where} does not know a storage of the job ({_storage_names(document)}) for "
                                 f"user {self._settings.username}: {refusal.message} Correct storageConfigName, "
                                 "storages, or extras.storages of openpaiConfig.")
        if answer.status == 400 and _NO_QUOTA.search(refusal.message[:_BEGINNING]):
            queue = (document.get("defaults") or {}).get("virtualCluster") or "default"
            raise MustWait(of_openpai(
                "platform_quota", f"{self.where} has no quota for the job in the virtual cluster {shown(queue)}: "
                                  f"{refusal.message} The submission is tried again every minute. If there will never "
                                  "be enough quota, ask for fewer GPUs, or for another skuType or "
                                  "virtualCluster."), retry_after=QUOTA_PAUSE)
        raise PermanentError(f"{self.where} refuses the job (HTTP {answer.status} {refusal.code}): {refusal.message}")

    def jobs(self) -> list[dict[str, Any]]:
        """The account's newest jobs, at most MOST_LISTED, in one question."""
        answer = self._read("api/v2/jobs", {"username": self._settings.username, "limit": MOST_LISTED, "offset": 0,
                                            "order": "submissionTime,DESC"})
        listed = answer.document()
        rows = listed.get("data") if isinstance(listed, dict) else listed
        if not isinstance(rows, list):
            raise TemporaryError(f"{self.where} answered the request for its jobs without a list.")
        return [row for row in rows if isinstance(row, dict)]

    def job(self, name: str) -> dict[str, Any]:
        """One job in detail. Raises NoSuchJob."""
        return self._object(self._of_job(name), name)

    def config(self, name: str) -> dict[str, Any]:
        """The document a job was submitted with, secrets masked; {} where it has none. Raises NoSuchJob."""
        answer = self._known("GET", self._of_job(name) + "/config", name, may_say="NoJobConfigError")
        if not answer.ok:  # it was made by something else than the rest-server
            return {}
        try:
            document = read_yaml(answer.text)  # declared as YAML; JSON is YAML, too
        except YamlRefused:
            document = None
        return document if isinstance(document, dict) else {}

    def stop(self, name: str) -> None:
        """Harmless where it has ended or is not there."""
        body = json.dumps({"value": "STOP"}).encode()
        answer = self._call("PUT", self._of_job(name) + "/executionType", body=body,
                            headers={"Content-Type": "application/json"})
        if not self._is_said_by_openpai(answer) and Refusal.of(answer).code != "NoJobError":
            self._raise(answer)

    def warnings(self, name: str) -> list[str]:
        """Why a job is not scheduled, the newest sentence first; [] where nothing is said."""
        try:
            found = self._known("GET", self._of_job(name) + "/events", name, {"type": "Warning"}).document()
        except NoSuchJob:
            return []
        rows = found.get("data") if isinstance(found, dict) else None
        return [str(row["message"]) for row in rows or [] if isinstance(row, dict) and row.get("message")]

    def page(self, name: str) -> str:
        """Address of the job's page in the web portal."""
        return (f"{self._settings.host}/job-detail.html?username={quote(self._settings.username, safe='')}"
                f"&jobName={quote(name, safe='')}")

    # --- look-ups --------------------------------------------------------------------------

    def info(self, timeout: tuple[float, float] = TIMEOUT) -> dict[str, Any]:
        """Name and version of the server; needs no token."""
        return self._dict(self._client.call("GET", "api/v2/info", timeout=timeout))

    def token_owner(self, timeout: tuple[float, float] = TIMEOUT) -> str:
        """The name of the account the token belongs to."""
        return str(self._dict(self._read("api/v2/tokens/check", timeout=timeout)).get("username") or "")

    def virtual_clusters(self, timeout: tuple[float, float] = TIMEOUT) -> list[str]:
        """Those that the account may use."""
        user = quote(self._settings.username, safe="")
        document = self._dict(self._read(f"api/v2/users/{user}", timeout=timeout))
        names = document.get("virtualCluster")
        return [str(name) for name in names] if isinstance(names, list) else []

    def storage(self, name: str, timeout: tuple[float, float] = TIMEOUT) -> dict[str, Any] | None:
        """One storage; None where the account may not use it or there is none. Holds secrets: never log."""
        answer = self._call("GET", f"api/v2/storages/{quote(name, safe='')}", timeout=timeout)
        return None if answer.status in (403, 404) else self._dict(answer)

    def default_storages(self) -> list[str]:
        """Names of those that a job of the account gets that asks for none by name."""
        rows = self._dict(self._read("api/v2/storages", {"default": "true"})).get("storages")
        return [str(row["name"]) for row in rows or [] if isinstance(row, dict) and row.get("name")]

    # --- how -------------------------------------------------------------------------------

    def _of_job(self, name: str) -> str:
        return f"api/v2/jobs/{quote(self._settings.username, safe='')}~{quote(name, safe='')}"

    def _is_said_by_openpai(self, answer: RestAnswer) -> bool:
        """Whether it took the order, which it says with 202 and JSON; False: it refuses in its own words.

        Raises TemporaryError where somebody else answers (a proxy, a log-in page), so that it is tried again.
        """
        document = None if answer.status == 413 else answer.document()  # a 413 may come without JSON
        if answer.status == 202 and isinstance(document, dict):
            return True
        if answer.status < 400:
            raise TemporaryError(f"{self.where} did not accept the request as OpenPAI does (HTTP {answer.status}: "
                                 f"{shown(answer.shown(), 300)}). It is sent again under the same name, which "
                                 "cannot create a "
                                 "second job. Check that the address is that of OpenPAI and not of a proxy or log-in "
                                 "page in front of it.")
        return False

    def _known(self, method: str, path: str, name: str, params: Mapping[str, Any] | None = None,
               may_say: str = "") -> RestAnswer:
        """``may_say``: the code of an error that is an answer, too."""
        answer = self._call(method, path, params=params)
        code = Refusal.of(answer).code if answer.status == 404 else ""
        if code == "NoJobError":
            raise NoSuchJob(name)
        if not answer.ok and (not code or code != may_say):
            self._raise(answer)
        return answer

    def _object(self, path: str, name: str) -> dict[str, Any]:
        return self._dict(self._known("GET", path, name))

    def _read(self, path: str, params: Mapping[str, Any] | None = None,
              timeout: tuple[float, float] = TIMEOUT) -> RestAnswer:
        answer = self._call("GET", path, params=params, timeout=timeout)
        if not answer.ok:
            self._raise(answer)
        return answer

    def _dict(self, answer: RestAnswer) -> dict[str, Any]:
        if not answer.ok:
            self._raise(answer)
        document = answer.document()
        if not isinstance(document, dict):
            raise TemporaryError(f"{self.where} answered with unexpected JSON. Check that it is OpenPAI.")
        return document

    def _raise(self, answer: RestAnswer) -> None:
        refusal = Refusal.of(answer)
        if refusal.code == "NoApiError" or (answer.status == 404 and not refusal.code):
            raise TemporaryError(f"{self.where} does not know OpenPAI's interface (version 2) under this address; "
                                 "correct host, or update the cluster to 1.1 or newer.")
        raise TemporaryError(f"{self.where} refuses the request (HTTP {answer.status} {refusal.code}): "
                             f"{refusal.message}")

    def _call(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: bytes | None = None,
              headers: Mapping[str, str] | None = None, timeout: tuple[float, float] = TIMEOUT) -> RestAnswer:
        """One call with the token. Raises TemporaryError where it is refused: TokenDoubted, then LogInRefused."""
        used = self._current_token(timeout)
        for attempt in (1, 2):
            answer = self._client.call(method, path, params=params, body=body, timeout=timeout,
                                       headers={**(headers or {}), "Authorization": f"Bearer {used}"})
            if answer.status != 401:
                self._doubt.accepted()
                return answer
            if attempt == 1 and self._settings.password is not None:
                used = self._log_in(used, timeout)
            else:
                break
        expiry, said = token_expiry(used), Refusal.of(answer).message
        if not self._doubt.refused() and (expiry is None or expiry > time.time()):
            raise TokenDoubted(
                f"{self.where} says that the token of user {self._settings.username} is invalid ({said}). It gives the "
                "same answer while its Kubernetes cannot be reached, so the request is sent again. Trials wait.", said)
        raise LogInRefused(f"{self.refused_token(said)} Trials wait.", retry_after=RETRY_AFTER_REFUSAL)

    def refused_token(self, said: str) -> str:
        """The sentence on a token that the server keeps refusing. ``said``: its words."""
        what = "password" if self._settings.password is not None else "token"
        return (f"{self.where} does not accept the {what} of user {self._settings.username}: {said} Make a new token "
                "in the web portal (an application token does not expire) and enter it in the cluster's settings. If "
                "other users have the same problem, the cluster's Kubernetes cannot be reached: ask its administrator.")

    def _current_token(self, timeout: tuple[float, float]) -> str:
        return self._token or self._log_in("", timeout)

    def _log_in(self, old: str, timeout: tuple[float, float]) -> str:
        """A fresh token by password; another thread may have fetched one."""
        with self._lock:
            if self._token != old:
                return self._token
            password = self._settings.password
            assert password is not None  # the settings have a token or a password
            body = json.dumps({"username": self._settings.username, "password": password.get_secret_value()}).encode()
            answer = self._client.call("POST", "api/v2/authn/basic/login", body=body, timeout=timeout,
                                       headers={"Content-Type": "application/json"})
            if not answer.ok:
                self._token = ""
                refusal = Refusal.of(answer)
                raise LogInRefused(f"{self.where} does not let user {self._settings.username} log in with the password "
                                   f"({refusal.code or answer.status}): {refusal.message} Trials wait. Correct the "
                                   "password, or use a token. Clusters with single sign-on do not accept "
                                   "passwords.", retry_after=RETRY_AFTER_REFUSAL)
            self._token = str(self._dict(answer).get("token") or "")
            return self._token


def _storage_names(document: Mapping[str, Any]) -> str:
    return ", ".join(str(entry["name"]) for entry in document["extras"]["storages"])


def token_expiry(token: str) -> float | None:
    """When a token runs out (seconds since 1970), by its own words; None: never, or it does not say."""
    parts: Sequence[str] = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = read_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None
