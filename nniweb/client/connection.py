"""Requests to one server: who asks, what is tried again, and what its answers mean."""

from __future__ import annotations

import json
import os
import re
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from nniweb.client.code_upload import FormBody, PreparedLaunch, Progress, prepare, read_config
from nniweb.client.credentials import authority_file, checked_token, find_token, server_address
from nniweb.client.errors import CannotReach, ClientError, FieldError, MayBeDone, NotFound, Refused, refused
from nniweb.client.experiment import Experiment, segment
from nniweb.middleware.require_tls import is_loopback
from trainingservice.local.shell import shell_document
from trainingservice.words.shown_value import shown

#: Seconds until a connection must stand, and until an answer must come; a launch unpacks and tries things first.
CONNECT_TIMEOUT, ANSWER_TIMEOUT, LAUNCH_TIMEOUT = 10.0, 60.0, 300.0
#: Seconds between two tries: the first pause, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
#: Answers of a proxy, or of a server that is about to stop or to start: asking again is all there is to do.
_AWAY = (502, 503, 504)
_TOO_OFTEN = 429
_PAGE = 1000
#: Names with slashes between them, and no name that has dots only.
_PATH_OF_NNI = re.compile(r"(?!\.+(/|$))[A-Za-z0-9._-]+(/(?!\.+(/|$))[A-Za-z0-9._-]+)*")


class _Token(AuthBase):
    """Sets the header itself: given as a header it would have to give way to a name in ~/.netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Token {self._token}"
        return request


class Client:
    """One server, one token. May be used by one thread at a time; every call blocks.

    ``server``: its address (else NNIWEB_SERVER). ``token``: the secret itself (else that of ``token_file``,
    NNIWEB_TOKEN, NNIWEB_TOKEN_FILE or ``~/.config/nniweb/token``). ``ca_file``: PEM file with the authority behind the
    server's certificate, where that is one of your own (else NNIWEB_CA_FILE). ``patience``: seconds for which a
    request that may be repeated is tried again while the server is away. ``on_wait``: called with a sentence when a
    request is to be repeated, once for each request. Raises TokenTrouble; every call raises ClientError.
    """

    def __init__(self, server: str | None = None, token: str | None = None, *,
                 token_file: str | os.PathLike[str] | None = None, ca_file: str | os.PathLike[str] | None = None,
                 patience: float = 60.0, on_wait: Callable[[str], None] | None = None) -> None:
        self.server = server_address(server)
        self.patience = patience
        self._on_wait = on_wait
        self._authority = authority_file(ca_file)
        self._session = requests.Session()
        self._session.auth = _Token(checked_token(token, "token") if token is not None else find_token(token_file))
        if is_loopback(urlsplit(self.server).hostname or ""):
            self._session.trust_env = False  # a proxy of the network does not lead to this machine

    def __repr__(self) -> str:
        return f"<Client of {self.server}>"

    # --- what there is to do ---------------------------------------------------------------------------------

    def account(self) -> dict[str, Any]:
        """Whose token this is, and what it may do."""
        return dict(self.get("account/"))

    def workers_alive(self) -> bool:
        """Whether any worker was heard of in the last 15 seconds; where none was, nothing starts."""
        return any(worker["alive"] for worker in self.get("workers/", page_size=_PAGE)["results"])

    def experiments(self, **filters: Any) -> list[Experiment]:
        """Experiments you may see, newest first. Filters as of REST: ``status="RUNNING"``, ``q="mice"``."""
        return [Experiment(self, document) for document in self.get_all("experiments/", **filters)]

    def experiment(self, experiment_id: str) -> Experiment:
        """One by its id. Raises NotFound."""
        path = f"experiments/{segment(experiment_id)}/"
        try:
            return Experiment(self, self.get(path))
        except NotFound as error:
            said = f"{self.server} has no experiment {experiment_id}, or you may not see it."
            raise NotFound(error.status, [FieldError("", said)]) from None

    def launch(self, config: str | os.PathLike[str] | Mapping[str, Any], *,
               code: str | os.PathLike[str] | None = None, cluster: str | None = None,
               git: Mapping[str, str] | None = None, group: str | None = None,
               progress: Progress | None = None, files: Mapping[str, Path] | None = None,
               base_directory: str | os.PathLike[str] | None = None) -> Experiment:
        """Launch an experiment from its file, or from the content of one as a mapping.

        The code folder (``code``, else what the file names, else the file's own; of a mapping the working directory)
        is uploaded without what ``.nniignore`` names; ``progress(sent, total)`` is called with bytes meanwhile. With
        ``git`` (``url``, and ``ref``, ``folder``, ``token``) the server fetches it instead. ``cluster`` takes the place
        of what the file says. ``group`` is one of yours whose members see and steer the experiment; "" keeps it to you
        and administrators; None is the server's default (your only group). ``files`` are further files of the code by
        their names there. With ``base_directory`` nothing is uploaded: it is the folder of the server's machine where
        relative paths of the config start. It is launched once, however often it must be sent. Raises Refused with the
        fields at fault.
        """
        return Experiment(self, self._send_config("experiments/", config, code, cluster, git, group, progress, files,
                                                  base_directory))

    def check(self, config: str | os.PathLike[str] | Mapping[str, Any], *,
              code: str | os.PathLike[str] | None = None, cluster: str | None = None,
              git: Mapping[str, str] | None = None, group: str | None = None,
              progress: Progress | None = None) -> dict[str, Any]:
        """What a launch would do; it launches nothing. Raises Refused with the fields that are wrong."""
        return dict(self._send_config("experiments/check/", config, code, cluster, git, group, progress))

    def tokens(self, **filters: Any) -> list[dict[str, Any]]:
        """Your tokens without their secrets, with what each runs and how its budgets stand, the latest first."""
        return [dict(document) for document in self.get_all("tokens/", **filters)]

    def make_token(self, name: str, **limits: Any) -> dict[str, Any]:
        """A new token, whose secret (``token``) is seen this once. ``limits`` as of REST: ``scope``, or for a leash
        ``roles``, ``clusters``, ``max_trials``, ``budget``, ``expires_at``. Raises Refused with the fields at fault.
        """
        return dict(self.change("POST", "tokens/", {"name": name, **limits}))

    def end_token(self, token_id: int, *, stop: bool = False) -> dict[str, Any]:
        """Have a token open nothing any more; with ``stop`` what it runs is stopped. Raises NotFound."""
        return dict(self.change("POST", f"tokens/{int(token_id)}/end/", {"stop": stop}, may_repeat=True))

    # --- requests --------------------------------------------------------------------------------------------

    def get(self, path: str, *, patience: float | None = None, **query: Any) -> Any:
        """The document at a path below ``/api/v1/``."""
        return _document(self.request("GET", path, params=_written(query), patience=patience))

    def get_all(self, path: str, **query: Any) -> list[Any]:
        """All rows of a list, page by page."""
        rows: list[Any] = []
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=_PAGE, **query)
            rows += answer["results"]
            if answer.get("next") is None:
                return rows
            page += 1

    def change(self, method: str, path: str, body: Any = None, *, may_repeat: bool = False) -> Any:
        """Send a change. It is sent once, unless it is the same to send it twice (``may_repeat``)."""
        return _document(self.request(method, path, json=body, may_repeat=may_repeat))

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """A file, in pieces as they come. Raises CannotReach where it breaks off."""
        response = self.request("GET", path, params=_written(query), stream=True)
        try:
            yield from response.iter_content(64 * 1024)
        except requests.RequestException as error:
            raise CannotReach(f"{self.server} closed the connection in the middle of {path}: {error}. Send the request "
                              "again.") from None
        finally:
            response.close()

    def request(self, method: str, path: str, *, may_repeat: bool | None = None, patience: float | None = None,
                timeout: float = ANSWER_TIMEOUT, form: Callable[[], FormBody] | None = None,
                headers: Mapping[str, str] | None = None, **more: Any) -> requests.Response:
        """A good answer. Reading is repeated while the server is away; a change only where it cannot have arrived, or
        where ``may_repeat``. ``form`` makes the body, anew for each try. Raises Refused, CannotReach and MayBeDone.
        """
        repeat = method == "GET" if may_repeat is None else may_repeat
        patience = self.patience if patience is None else patience
        deadline = time.monotonic() + patience
        pause = FIRST_PAUSE
        told = False
        while True:
            trouble: ClientError
            body = form() if form is not None else None
            sent = {**(headers or {}), **({"Content-Type": body.content_type} if body is not None else {})}
            try:
                response = self._session.request(method, f"{self.server}/api/v1/{path}", allow_redirects=False,
                                                 timeout=(CONNECT_TIMEOUT, timeout), data=body, headers=sent,
                                                 verify=self._authority, **more)
            except requests.exceptions.InvalidJSONError as error:  # it did not get as far as a connection
                raise ClientError(f"What is to be sent cannot be written as JSON: {_innermost(error)}. Nothing was "
                                  "sent.") from None
            except requests.RequestException as error:
                again, trouble = _may_pass(error, repeat), self._no_answer(error, repeat)
                asked = 0.0
            else:
                if response.ok and not response.is_redirect:
                    return response
                trouble = self._trouble(response, repeat)
                again = response.status_code == _TOO_OFTEN or (repeat and response.status_code in _AWAY)
                asked = _retry_after(response)
                response.close()
            wait = max(pause, asked)
            if not again or time.monotonic() + wait > deadline:
                raise trouble from None
            if self._on_wait is not None and not told:
                told = True
                self._on_wait(f"{trouble} The request is repeated for up to {patience:.0f} s; Ctrl-C ends that.")
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def nni(self, method: str, experiment_id: str, path: str, *, params: Mapping[str, str] | None = None,
            body: bytes | None = None) -> requests.Response:
        """One request of NNI's REST interface, ``/api/v1/nni/`` and the path, of one experiment. Sent once; the answer
        is NNI's, whatever it says. Raises NotFound for what is no id and no path, and MayBeDone where no answer comes.
        """
        path = path.lstrip("/")
        if _PATH_OF_NNI.fullmatch(path) is None:  # dots would lead out of the experiment, with this token
            raise NotFound(404, [FieldError("", f"{shown(path)} is no address of NNI's interface.")])
        address = f"{self.server}/nni/{segment(experiment_id)}/api/v1/nni/{path}"
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._session.request(method, address, params=params, data=body, headers=headers,
                                         allow_redirects=False, timeout=(CONNECT_TIMEOUT, ANSWER_TIMEOUT),
                                         verify=self._authority)
        except requests.RequestException as error:
            raise self._no_answer(error, repeat=method == "GET") from None

    def _send_config(self, path: str, config: str | os.PathLike[str] | Mapping[str, Any],
                     code: str | os.PathLike[str] | None, cluster: str | None, git: Mapping[str, str] | None,
                     group: str | None, progress: Progress | None,
                     files: Mapping[str, Path] | None = None,
                     base_directory: str | os.PathLike[str] | None = None) -> Any:
        text, base = (json.dumps(dict(config)), Path.cwd()) if isinstance(config, Mapping) \
            else (read_config(config), Path(config).absolute().parent)
        fields = {"cluster": cluster or "", "base_directory": str(base_directory or ""),
                  **{f"git_{name}": value for name, value in (git or {}).items()}}
        fields = {name: value for name, value in fields.items() if value}
        if group is not None:
            fields["group"] = group  # empty: nobody
        if is_loopback(urlsplit(self.server).hostname or ""):
            fields["shell"] = shell_document()  # trials on this machine find the Python of this shell
        prepared = PreparedLaunch(text, []) if git or base_directory else prepare(
            text, base, Path(code) if code is not None else None, files)
        self.account()  # whether the token is good, before much is sent
        key = secrets.token_hex(16)  # by which the server knows a second try
        with _archive(prepared) as archive:

            def form() -> FormBody:
                return FormBody({"config": prepared.config, **fields}, archive, progress)

            return _document(self.request("POST", path, form=form, headers={"Idempotency-Key": key}, may_repeat=True,
                                          timeout=LAUNCH_TIMEOUT))

    # --- what went wrong -------------------------------------------------------------------------------------

    def _no_answer(self, error: requests.RequestException, repeat: bool) -> CannotReach:
        reason = _innermost(error)
        if _is_untrusted(error):
            return CannotReach(f"The certificate of {self.server} is not trusted: {reason}. Check the address. If a "
                               "private authority signed the certificate, give the file of the authority with "
                               "NNIWEB_CA_FILE or --ca-file.")
        if repeat or _never_left(error):
            return CannotReach(f"{self.server} cannot be reached: {reason}. Check the address and that the server "
                               "runs. Running trials continue.")
        return MayBeDone(f"{self.server} gave no answer ({reason}). The server may have carried out the request. Check "
                         "with nniweb experiments list before you send it again.")

    def _trouble(self, response: requests.Response, repeat: bool) -> ClientError:
        status = response.status_code
        try:
            document = response.json()
        except (ValueError, requests.RequestException):
            document = None
        kind = CannotReach if repeat or status not in _AWAY else MayBeDone
        if (error := refused(status, document)) is not None:
            return kind(str(error)) if status in _AWAY else error
        if response.is_redirect:
            goal = response.headers.get("Location", "")[:200]
            return CannotReach(f"{self.server} redirects to {goal}. Give the address of that server.")
        if status in (413, 414):
            text = " ".join(response.text.split())[:300]  # of a door before the application
            return Refused(status, [FieldError("", text or f"The request was refused ({status}).")])
        return kind(f"{self.server} answered with {status}, but not with an answer of NNI Web. Check that the address "
                    "is that of NNI Web and not of a proxy in front of it.")


def _document(response: requests.Response) -> Any:
    """The body of a good answer; None where there is none. Raises CannotReach where it is something else."""
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise CannotReach(f"{response.url} did not answer with JSON. Check that the address is that of NNI Web and not "
                          "of a proxy or log-in page in front of it.") from None


@contextmanager
def _archive(prepared: PreparedLaunch) -> Iterator[Any]:
    if not prepared.entries:
        yield None
        return
    with tempfile.TemporaryFile(prefix="nniweb-code-") as file:
        prepared.write(file)
        yield file


def _written(query: Mapping[str, Any]) -> dict[str, Any]:
    """The query without what is None; lists with commas, truth in small letters, as the server reads them."""
    shown: dict[type, Callable[[Any], str]] = {bool: lambda value: str(value).lower(), list: ",".join, tuple: ",".join}
    return {name: shown.get(type(value), str)(value) for name, value in query.items() if value is not None}


def _never_left(error: requests.RequestException) -> bool:
    """Whether no connection came about: then nothing was sent."""
    reason = error.args[0].reason if error.args and isinstance(error.args[0], MaxRetryError) else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _may_pass(error: requests.RequestException, repeat: bool) -> bool:
    """Whether to try again: not where a certificate is wrong, which it stays."""
    return not _is_untrusted(error) and (repeat or _never_left(error))


def _is_untrusted(error: requests.RequestException) -> bool:
    return isinstance(_cause(error), ssl.SSLCertVerificationError)


def _cause(error: BaseException) -> BaseException:
    """What it began with: libraries wrap it several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _innermost(error: BaseException) -> str:
    """The cause in few words."""
    error = _cause(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:200] or type(error).__name__


def _retry_after(response: requests.Response) -> float:
    """Seconds that the server asks to wait; 0 where it does not say so."""
    written = response.headers.get("Retry-After", "")
    return float(written) if written.isascii() and written.isdigit() and len(written) < 6 else 0.0
