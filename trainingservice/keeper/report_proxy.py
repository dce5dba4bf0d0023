"""The service's side of the second way home: asks the server on behalf of keepers that cannot reach it.

What an agent sends comes from another machine and is not trusted: only the keeper protocol's paths and
a few headers are passed on. An answer of the server, whatever its status, goes back as it is; where no
address answers, the keeper is told 503 and tries again by itself.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import DefaultCookiePolicy
from typing import IO, Any, Protocol

import requests

from trainingservice.errors import TemporaryError
from trainingservice.keeper.signs_of_life import QuietReport, SeveralReports
from trainingservice.rest import ca_bundle
from trainingservice.secrets_in_use import with_secrets_of_now
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Requests of one machine that are passed on at the same time.
WORKERS = 4
#: Seconds until a connection must stand and an answer come; less than a keeper waits for its answer.
TIMEOUT = (5.0, 45.0)
#: Bytes of a body kept in memory; longer ones go through a temporary file.
IN_MEMORY = 1024 * 1024
#: The largest body that is passed on: what servers take of a kept file is less.
MOST_BODY = 256 * 1024 * 1024
#: Bytes of the requests of one machine that are held at the same time, and how many they are: whoever runs there as the
#: trials' user can begin requests. What is more has to come again.
MOST_HELD, MOST_REQUESTS = 512 * 1024 * 1024, 10_000

#: Reports without entries are passed on together; for so many seconds they wait for each other, and one of them has at
#: most so many bytes.
GATHER, MOST_QUIET = 0.25, 16 * 1024

_METHODS = frozenset({"GET", "POST", "PUT"})
_PATH = re.compile(re.escape(contract.URL_PREFIX) + r"[A-Za-z0-9%._~/-]+")
_REPORTS = re.compile(re.escape(contract.URL_PREFIX) + r"trials/([A-Za-z0-9]+)/reports")
_REQUEST_HEADERS = frozenset({"authorization", "accept", "content-type", "content-encoding"})
_ANSWER_HEADERS = frozenset({"content-type", "retry-after", "etag"})


class AnswersRelay(Protocol):
    """Where answers go: an AgentClient is one."""

    def answer(self, relay: int, status: int, headers: Mapping[str, str], body: bytes) -> None: ...


class _Request:
    def __init__(self, event: Mapping[str, Any]) -> None:
        self.method, self.path = str(event["method"]), str(event["path"])
        self.headers = {name: str(value) for name, value in event["headers"].items() if name in _REQUEST_HEADERS}
        self.left = int(event["length"])
        #: Bytes that are held of it.
        self.held = 0
        self.body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # closed by the desk

    @property
    def may_pass(self) -> bool:
        return (self.method in _METHODS and _PATH.fullmatch(self.path) is not None
                and ".." not in self.path.split("/") and 0 <= self.left <= MOST_BODY)

    def as_quiet_report(self) -> QuietReport | None:
        """What a whole request says that is a report without entries; None of all others."""
        found = _REPORTS.fullmatch(self.path) if self.method == "POST" else None
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        size = self.body.tell()
        if found is None or "content-encoding" in self.headers or scheme.lower() != "bearer" or size > MOST_QUIET:
            return None
        self.body.seek(0)
        try:
            document = json.loads(self.body.read())
        except (ValueError, RecursionError):
            return None
        if not isinstance(document, dict) or document.pop("entries", None) != []:
            return None
        return QuietReport(found[1], token.strip(), document)


class ReportProxy:
    """Takes one agent's relay events and answers them to that agent. ``close`` it with the agent's client.

    Another agent numbers its requests afresh: an answer given to it would reach the wrong keeper.
    """

    def __init__(self, urls: Callable[[], tuple[str, ...]], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``urls``: addresses of the server, best first."""
        self._urls, self._monotonic = urls, monotonic
        self._agent: AnswersRelay | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="relay")
        self._session = ServerSession()
        self._open: dict[int, _Request] = {}
        #: All that are open or wait to be passed on, and their bytes.
        self._requests: set[_Request] = set()
        self._held = 0
        self._several = SeveralReports(monotonic)
        self._guard = threading.Lock()
        #: Reports without entries that wait for others: number of the request, the request, what it says.
        self._quiet: list[tuple[int, _Request, QuietReport]] = []
        self._closed = threading.Event()
        #: When a request was answered last by the server, monotonic; None before the first.
        self.answered_at: float | None = None

    def serve(self, agent: AnswersRelay) -> None:
        """Answer through this agent's client; to be said before the agent is told to relay."""
        self._agent = agent

    def hear(self, event: Mapping[str, Any]) -> None:
        """One event of the agent, in its reading thread. Does not block on the server."""
        import base64

        number = int(event["relay"])
        if event.get("gone"):
            request = self._open.pop(number, None)
            if request is not None:
                self._let_go(request)
            return
        if "method" in event:
            request = _Request(event)
            if not request.may_pass:
                logger.warning("a machine asked for %s %.200r, which is not passed on", request.method, request.path)
                self._reply(number, 403, {}, b"")
                return
            if (before := self._open.pop(number, None)) is not None:
                self._let_go(before)
            self._open[number] = request
            more, data = len(request.path) + sum(map(len, request.headers.values())), b""
        else:
            found = self._open.get(number)
            if found is None:
                return
            request = found
            data = base64.b64decode(event["data"])
            more = len(data)
        if not self._may_hold(request, more):
            self._open.pop(number, None)
            self._come_again(number, request)
            return
        request.body.write(data)
        request.left -= len(data)
        if request.left <= 0:
            self._open.pop(number, None)
            quiet = request.as_quiet_report()
            if quiet is None:
                self._pass_on_soon(number, request)
                return
            with self._guard:
                self._quiet.append((number, request, quiet))
                is_first = len(self._quiet) == 1
            if is_first and not self._soon(self._pass_on_quiet):
                for refused, its, _ in self._taken_quiet():
                    self._come_again(refused, its)

    def _soon(self, work: Callable[..., None], *arguments: Any) -> bool:
        """Do it on another thread. False where there is none, or all is closed."""
        try:
            self._pool.submit(with_secrets_of_now(work), *arguments)
        except (RuntimeError, MemoryError):
            return False
        return True

    def _may_hold(self, request: _Request, more: int) -> bool:
        """Whether there is room for so many bytes more of a request, which ``_let_go`` gives back."""
        with self._guard:
            self._requests.add(request)
            request.held += more
            self._held += more
            return len(self._requests) <= MOST_REQUESTS and self._held <= MOST_HELD

    def _let_go(self, request: _Request) -> None:
        with self._guard:
            if request in self._requests:
                self._requests.remove(request)
                self._held -= request.held
        request.body.close()

    def _come_again(self, number: int, request: _Request) -> None:
        self._let_go(request)
        self._reply(number, 503, {"Retry-After": "5"}, b"")

    def _pass_on_soon(self, number: int, request: _Request) -> None:
        if not self._soon(self._pass_on, number, request):
            self._come_again(number, request)

    def _taken_quiet(self) -> list[tuple[int, _Request, QuietReport]]:
        """What has gathered of reports without entries, which gathers no more."""
        with self._guard:
            taken, self._quiet = self._quiet, []
        return taken

    def _pass_on_quiet(self) -> None:
        """Pass on what has gathered of reports without entries, which nobody waits for."""
        self._closed.wait(GATHER)
        waiting = self._taken_quiet()
        for start in range(0, len(waiting), contract.MOST_SEVERAL_REPORTS):
            batch = waiting[start: start + contract.MOST_SEVERAL_REPORTS]
            told = self._ask_several([quiet for _, _, quiet in batch]) if len(batch) > 1 else None
            answers: Sequence[dict[str, Any] | None] = [None] * len(batch) if told is None else told
            for (number, request, _), answer in zip(batch, answers, strict=True):
                if answer is None:
                    self._pass_on_soon(number, request)
                    continue
                self._let_go(request)
                retry_after = answer.pop("retry_after", None)
                headers = {"Content-Type": "application/json"}
                self._reply(number, answer.pop("status"), headers if retry_after is None else
                            {**headers, "Retry-After": str(retry_after)}, json.dumps(answer).encode("ascii"))

    def _ask_several(self, reports: Sequence[QuietReport]) -> list[dict[str, Any]] | None:
        """None: each of them is to be passed on alone."""
        for url in self._urls():
            try:
                answers = self._several.send(url, reports, self._session.ask)
            except requests.RequestException:
                continue  # the next one
            except Exception:
                logger.exception("the reports of %d quiet keepers are passed on one by one", len(reports))
                return None
            self.answered_at = self._monotonic()
            return answers
        return None

    def close(self) -> None:
        """Take no more. Requests under way are answered or not; their keepers ask again."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._session.close()
        for request in list(self._open.values()):
            self._let_go(request)
        self._open.clear()

    def _pass_on(self, number: int, request: _Request) -> None:
        try:
            status, headers, body = self._ask(request)
        except Exception:  # a keeper that is not answered would wait for a minute
            logger.exception("a relayed request failed")
            status, headers, body = 503, {}, b""
        finally:
            self._let_go(request)
        self._reply(number, status, headers, body)

    def _ask(self, request: _Request) -> tuple[int, dict[str, str], bytes]:
        reason = "no address of the server is known to its worker"
        for url in self._urls():
            try:
                answer = self._session.ask(request.method, url.rstrip("/") + request.path, request.headers,
                                           request.body)
            except requests.RequestException as error:
                reason = str(error)
                continue
            self.answered_at = self._monotonic()
            headers = {name: value for name, value in answer.headers.items() if name.lower() in _ANSWER_HEADERS}
            return answer.status_code, headers, answer.content
        logger.info("a relayed request finds no server: %s", reason)
        return 503, {}, b""

    def _reply(self, number: int, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if self._agent is None:
            raise RuntimeError("an agent relays before it is known where answers go")
        try:
            self._agent.answer(number, status, headers, body)
        except TemporaryError as error:
            logger.info("an answer for a keeper could not be delivered, the keeper asks again: %s", error)


class ServerSession:
    """Requests to the server itself, over connections that are kept: no proxy, redirects or cookies. Any thread."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        authority = ca_bundle.trusted()
        if authority is not None:
            self._session.verify = str(authority)
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def ask(self, method: str, url: str, headers: Mapping[str, str], body: IO[bytes] | bytes) -> requests.Response:
        """One request. Raises requests.RequestException."""
        try:
            return self._ask(method, url, headers, body)
        except requests.ConnectTimeout:
            raise
        except requests.ConnectionError:
            # the server may have closed the kept connection at this moment, and what keepers ask may be asked twice
            return self._ask(method, url, headers, body)

    def close(self) -> None:
        """End the connections that are not in use."""
        self._session.close()

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: IO[bytes] | bytes) -> requests.Response:
        data: Any = body
        if not isinstance(body, bytes):
            length = body.seek(0, 2)
            body.seek(0)
            data = body if length else b""
        return self._session.request(method, url, data=data, headers=dict(headers), timeout=TIMEOUT,
                                     allow_redirects=False)


def ask_server(method: str, url: str, headers: Mapping[str, str], body: IO[bytes] | bytes) -> requests.Response:
    """One request to the server over a connection of its own. Raises requests.RequestException."""
    session = ServerSession()
    try:
        return session.ask(method, url, headers, body)
    finally:
        session.close()
