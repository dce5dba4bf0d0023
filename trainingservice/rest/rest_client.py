"""Requests to a platform's REST interface; what goes wrong becomes a sentence that never holds a query string.

Reading is repeated by the library where a connection breaks; writing is never repeated here, because the
answer to the first try may only have been lost. 429 and 5xx become TemporaryError with the pause that was
asked for; all other answers are the caller's to judge.
"""

from __future__ import annotations

import email.utils
import logging
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.util.retry import Retry

from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.reasons import Reason
from trainingservice.rest.timed_answers import TimedAdapter, is_too_slow
from trainingservice.rest.told_json import read_json
from trainingservice.words.shown_value import shown

#: Seconds until a connection must stand, and until an answer must come; see timed_answers for the whole of it.
TIMEOUT = (5.0, 30.0)
#: For a rehearsal before a launch.
QUICK_TIMEOUT = (1.0, 2.0)
#: The longest pause that a platform can ask for, in seconds.
LONGEST_PAUSE = 3600.0
#: How large an answer may be, unpacked.
MOST_BYTES = 64 * 1024 * 1024
_REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}
#: Characters of an error that are looked at for a sentence.
_LONGEST_REASON = 1000


class LogInRefused(TemporaryError):
    """The platform does not accept who we say we are. Trials wait, because a person can mend that."""

    reason_code = "log_in_refused"


class ServerFault(TemporaryError):
    """The platform answered with a fault of its own (5xx), which is ``answer``."""

    reason_code = "server_fault"

    def __init__(self, message: str, answer: RestAnswer, retry_after: float | None) -> None:
        super().__init__(message, retry_after)
        self.answer = answer


class TooManyCalls(TemporaryError):
    """The platform limits how often it is asked (429). ``answer``: in whose headers it may say more."""

    reason_code = "too_many_calls"

    def __init__(self, message: str, answer: RestAnswer, retry_after: float | None) -> None:
        super().__init__(message, retry_after)
        self.answer = answer


@dataclass(frozen=True)
class RestAnswer:
    """One answer. ``where``: who gave it, for sentences. ``headers``: by their names in any case."""

    status: int
    text: str
    content_type: str
    where: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def document(self) -> Any:
        """The body as JSON, whatever its content type says. Raises TemporaryError where it is something else."""
        try:
            return read_json(self.text)
        except ValueError:
            kind = self.content_type.partition(";")[0] or "no content type"
            raise TemporaryError(Reason("another_server", said=(
                f"{self.where} did not answer with JSON (HTTP {self.status}, {kind}: {shown(self.shown(), 300)}). "
                "Check that the "
                "address is correct and not that of a proxy or log-in page in front of it."))) from None

    def shown(self) -> str:
        """The beginning of the body, for a sentence."""
        return " ".join(re.sub(r"<[^<>]*>", " ", self.text).split())[:200]


class RestClient:
    """One platform. May be used from several threads."""

    def __init__(self, base: str, name: str, *, ca_file: str | None = None, hidden: tuple[str, ...] = (),
                 refused: Callable[[RestAnswer], str] | None = None,
                 pause_asked_for: Callable[[RestAnswer], float | None] | None = None) -> None:
        """``base``: address with a slash at the end. ``hidden``: query parameters that no log may show. ``ca_file``:
        what the field caFile of the platform names, a PEM file with the authority behind the server's certificate.

        ``refused``: what an answer that is an error says, if it has a way of its own. ``pause_asked_for``: the seconds
        that a 429 asks for, where it is not Retry-After that says so.
        """
        self._base, self._refused = base, refused or RestAnswer.shown
        self._pause_asked_for = pause_asked_for or retry_after_of
        self.where = f"{name} at {urlsplit(base).netloc}"
        self._session = _Session()
        self._session.auth = _no_netrc
        self._ca_file = ca_file
        retry = Retry(total=2, connect=2, read=1, redirect=0, status=0, other=0, backoff_factor=0.2,
                      allowed_methods=frozenset({"GET"}), raise_on_status=False)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, TimedAdapter(pool_maxsize=8, max_retries=retry))
        if hidden:
            _hide_in_logs(hidden)

    def call(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: bytes | None = None,
             headers: Mapping[str, str] | None = None, timeout: tuple[float, float] = TIMEOUT) -> RestAnswer:
        """One request. Raises TemporaryError: nobody answers, 429, 5xx; PermanentError: no such address."""
        url, query = urljoin(self._base, path), params
        for _ in range(_REDIRECTS):
            try:
                response = self._session.request(method, url, params=query, data=body, headers=dict(headers or {}),
                                                 timeout=timeout, allow_redirects=False, stream=True,
                                                 # given with each request: REQUESTS_CA_BUNDLE goes before a session's
                                                 verify=self._ca_file)
                with response:
                    self._read_bounded(response)
            except OSError as error:  # all that requests raises, and what reading ca_file does
                raise self._unreached(error, timeout) from None  # its text holds the whole address
            target = response.headers.get("Location") if response.is_redirect else None
            if target is None:
                return self._judged(response)
            moved, why_not = _followed(url, target)
            if why_not:
                raise TemporaryError(Reason("another_server", said=(
                    f"{self.where} redirects to {why_not}. Correct the address.")))
            url, query = moved, None  # the query is part of where we are sent
        raise TemporaryError(Reason(
            "another_server", said=f"{self.where} redirects too often. Correct the address."))

    def close(self) -> None:
        self._session.close()

    def _read_bounded(self, response: requests.Response) -> None:
        """Read the body, as ``response.content`` does, if it is not too large. Raises TemporaryError."""
        content = bytearray()
        for piece in response.iter_content(64 * 1024):
            content += piece
            if len(content) > MOST_BYTES:
                raise TemporaryError(Reason("another_server", said=(
                    f"{self.where} answered with more than {MOST_BYTES // 1024 ** 2} MB. Check that the address is "
                    "correct.")))
        response._content = bytes(content)  # what requests itself sets when it reads

    def _judged(self, response: requests.Response) -> RestAnswer:
        answer = RestAnswer(response.status_code, response.text, response.headers.get("Content-Type", ""), self.where,
                            response.headers)
        if answer.status == 429:
            pause = self._pause_asked_for(answer)
            asked = f"it asks for a pause of {pause:.0f} s" if pause is not None else "requests are sent less often"
            raise TooManyCalls(f"{self.where} limits the rate of requests; {asked}.", answer, pause)
        if answer.status >= 500:
            said = self._refused(answer)
            raise ServerFault(f"{self.where} reports an internal error (HTTP "
                              f"{answer.status}{': ' if said else ''}{said}). The request is sent again.", answer,
                              _pause_of(response.headers.get("Retry-After")))
        return answer

    def _unreached(self, error: OSError, timeout: tuple[float, float]) -> Exception:
        if isinstance(error, requests.exceptions.MissingSchema | requests.exceptions.InvalidURL
                      | requests.exceptions.InvalidSchema):
            return PermanentError(f"{self.where} cannot be called, because its address is not valid. Correct the "
                                  "address.")
        code = "unreachable"
        if unusable := self._why_no_authority():
            code, reason = "certificate_refused", unusable
        elif isinstance(error, requests.exceptions.SSLError):
            code, reason = "certificate_refused", f"its certificate or TLS is not accepted ({_innermost(error)})"
            if "certificate verify failed" in str(error):
                reason += ". If a private authority has signed the certificate, name its PEM file in caFile" \
                    if self._ca_file is None else f". The authorities are those of caFile, {shown(self._ca_file, 300)}"
        elif isinstance(error, requests.exceptions.ConnectTimeout):
            reason = f"no connection within {timeout[0]:.0f} s"
        elif isinstance(error, requests.exceptions.ReadTimeout) and not is_too_slow(error):
            reason = f"no answer within {timeout[1]:.0f} s"
        else:
            reason = _innermost(error)
        return TemporaryError(Reason(code, said=f"{self.where} cannot be reached: {reason}."))

    def _why_no_authority(self) -> str:
        """What is wrong with ``ca_file``; "" where nothing is."""
        if self._ca_file is None or urlsplit(self._base).scheme != "https":
            return ""
        try:
            ssl.create_default_context(cafile=self._ca_file)
        except ssl.SSLError:
            why = "it has no certificate in PEM form"
        except OSError as error:
            why = str(error.strerror)
        else:
            return ""
        return f"caFile, {shown(self._ca_file, 300)}, cannot be used ({why})"


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Redirects are not for the library: of one that it does not follow it reads the whole body all the same."""


def _followed(url: str, target: str) -> tuple[str, str]:
    """Where a redirect leads, and why it is not followed ("" where it is): the credentials would go there, too."""
    try:
        moved = urljoin(url, target)
        before, after = urlsplit(url), urlsplit(moved)
        ports = [parts.port or _PORTS.get(parts.scheme, 0) for parts in (before, after)]
    except ValueError:
        return "", f"an address that is not valid ({shown(target, 300)})"
    why_not = ""
    if after.hostname != before.hostname:
        why_not = f"another host ({after.netloc})"
    elif before.scheme == "https" != after.scheme:
        why_not = f"an address without TLS ({after.scheme}://{after.netloc})"
    elif before.scheme == after.scheme and ports[0] != ports[1]:
        why_not = f"another port ({after.netloc})"
    return moved, why_not and f"{why_not}, which would receive the credentials"


def _innermost(error: BaseException) -> str:
    """What the system said, without the address that libraries put around it."""
    seen: set[int] = set()
    current: Any = error
    while id(current) not in seen:
        seen.add(id(current))
        following = getattr(current, "reason", None) or current.__cause__ or current.__context__
        if not isinstance(following, BaseException):
            following = next((part for part in getattr(current, "args", ()) if isinstance(part, BaseException)), None)
        if following is None:
            break
        current = following
    text = getattr(current, "strerror", None) or getattr(current, "verify_message", None) or ""
    # an error may quote what a server sent, as long as it likes: the expression takes the square of its length
    said = str(current)[:_LONGEST_REASON]
    return str(text) or re.sub(r"(?s)<.*>: |\(.*|\S*[?&]\S*", "", said) or type(current).__name__


def retry_after_of(answer: RestAnswer) -> float | None:
    """Seconds, by the answer's Retry-After."""
    return _pause_of(answer.headers.get("Retry-After"))


def _pause_of(text: str | None) -> float | None:
    """Seconds, from Retry-After: a number or a date."""
    if text is None:
        return None
    try:
        return min(LONGEST_PAUSE, max(0.0, float(text)))
    except ValueError:
        pass
    try:
        return min(LONGEST_PAUSE, max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time()))
    except (TypeError, ValueError):
        return None


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Said explicitly, because requests else replaces our header by what ~/.netrc has for the host."""
    return request


class _Hiding(logging.Filter):
    """Masks query parameters in records of the HTTP library."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._pattern = re.compile(rf"((?:^|[?&\s])(?:{'|'.join(map(re.escape, names))})=)[^&\s\"']*")

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._pattern.sub(r"\1***", record.getMessage()), None
        return True


_hidden: set[str] = set()


def _hide_in_logs(names: tuple[str, ...]) -> None:
    if not set(names) <= _hidden:
        _hidden.update(names)
        logging.getLogger("urllib3.connectionpool").addFilter(_Hiding(names))
        logging.getLogger("urllib3.util.retry").addFilter(_Hiding(names))
