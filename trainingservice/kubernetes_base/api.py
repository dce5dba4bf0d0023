"""The Kubernetes API as plain JSON: one call, one watch, and every refusal as an error with a sentence.

The official client brings kubeconfig, in-cluster access, TLS and authentication. Its typed models are not
used: they would cost more memory than the objects themselves, and custom resources have none.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import config as kubernetes_config
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import OpenApiException

from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.limited_yaml import read_yaml_file
from trainingservice.reasons import Reason
from trainingservice.rest.told_json import read_json
from trialkeeper.whole_number import whole_number

logger = logging.getLogger(__name__)
logging.getLogger("kubernetes").setLevel(logging.ERROR)

#: Seconds until a connection must stand, and until an answer must come.
TIMEOUT = (5.0, 30.0)
#: Tells whether an API server has finished its start; and what every account may ask it.
READY, VERSION = "/readyz", "/version"
#: Seconds until a request is made again for which the namespace's quota had no room.
ROOM_AGAIN = 15.0
#: Seconds after an outage in which a lack of rights is the start's: the caches of roles take about 30 s to fill.
JUST_BACK = 60.0
#: A start takes no longer; what a server says of rights after so many seconds is meant.
STARTS_WITHIN = 300.0
#: Connections that are kept open to one API server.
POOL_SIZE = 16
#: How large an answer may be, unpacked.
MOST_BYTES = 64 * 1024 * 1024
JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"

#: How the API says that an account has no right to something.
_MAY_NOT = re.compile(r'User "[^"]*" cannot \w+ ')

Object = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """One kind of objects as the API addresses it. ``group`` "" is the core group."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "") -> str:
        """The address of a namespace's collection, or of one object in it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


class ApiRefusal(Exception):
    """The API answered with an error. ``code`` is the HTTP status, ``reason`` Kubernetes' word for it."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.retry_after = code, reason, retry_after
        #: The server has just been started: it knows nobody's rights yet.
        self.is_starting = False

    @property
    def is_lack_of_rights(self) -> bool:
        """Whether our account may not, rather than what it sent: rules of admission answer 403, too."""
        return self.code == 403 and _MAY_NOT.search(str(self)) is not None


class ApiAway(TemporaryError):
    """The API cannot be reached, or does not answer."""

    reason_code = "unreachable"


class AccessUnreadable(ApiAway):
    """The kubeconfig cannot be read, or says nothing of use, here and now: somebody may mend it, or write it just now.

    Trials wait for that; a launch is refused.
    """

    reason_code = "settings_unusable"


@dataclass(frozen=True)
class ApiAccess:
    """Where the API is and who we are. Without a file: in-cluster where we run in a pod, else kubectl's own file."""

    kubeconfig: Path | None = None
    context: str | None = None


class KubernetesApi:
    """One cluster. All methods may be called from any thread. ``requests`` counts what was asked."""

    def __init__(self, access: ApiAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._client: ApiClient | None = None
        self._known_address = ""
        #: Monotonic times: when it was last found away, and since when it has been found starting.
        self._away_at = float("-inf")
        self._starting_since: float | None = None
        self.requests = 0

    @property
    def address(self) -> str:
        """The API server's address. Raises AccessUnreadable where the access could never be read."""
        if not self._known_address:
            self._connected()
        return self._known_address

    def close(self) -> None:
        """Close all connections. The next call opens new ones."""
        self.reload()

    def reload(self) -> None:
        """Read the credentials again at the next call: a token has expired, or the file was changed."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.rest_client.pool_manager.clear()

    def _connected(self) -> ApiClient:
        with self._lock:
            if self._client is None:
                configuration = _configuration(self._access)
                self._client = ApiClient(configuration)
                self._known_address = str(configuration.host)
            return self._client

    def call(self, method: str, path: str, *, query: Mapping[str, str] = {}, body: Object | None = None,
             content_type: str = JSON, timeout: tuple[float, float] = TIMEOUT) -> Object:
        """The answer's JSON object ({"text": ...} where it is not JSON). Raises ApiRefusal, ApiAway.

        A refused token is read again once, because tokens expire.
        """
        try:
            return self._call(method, path, query, body, content_type, timeout)
        except ApiRefusal as refusal:
            if refusal.code != 401:
                raise self._made_out(refusal, timeout) from None
            self.reload()
            return self._call(method, path, query, body, content_type, timeout)

    def _call(self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str,
              timeout: tuple[float, float]) -> Object:
        response = self._send(method, path, query, body, content_type, timeout)
        try:
            data = self._read(response)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._away(error) from error
        finally:
            response.release_conn()
        document = _json(data)
        if response.status >= 300:
            raise _refusal(response, document, data)
        return document if document is not None else {"text": data.decode(errors="replace")}

    def watch(self, path: str, query: Mapping[str, str], read_timeout: float) -> Watch:
        """Begin a watch: its events come line by line. Raises what ``call`` raises."""
        for attempt in (1, 2):
            response = self._send("GET", path, {**query, "watch": "true"}, None, JSON, (TIMEOUT[0], read_timeout))
            if response.status < 300:
                break
            try:
                data = self._read(response)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self._away(error) from error
            finally:
                response.release_conn()
            if response.status != 401 or attempt == 2:
                raise self._made_out(_refusal(response, _json(data), data), TIMEOUT)
            self.reload()
        return Watch(response, self._away)

    def _read(self, response: urllib3.BaseHTTPResponse) -> bytes:
        data = bytearray()
        for piece in response.stream(64 * 1024, decode_content=True):
            data += piece
            if len(data) > MOST_BYTES:
                raise self._away(OSError(f"its answer has more than {MOST_BYTES // 1024 ** 2} MB"))
        return bytes(data)

    def _send(self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str,
              timeout: tuple[float, float]) -> urllib3.BaseHTTPResponse:
        client = self._connected()
        headers = {"Accept": JSON}
        if body is not None:
            headers["Content-Type"] = content_type
        self.requests += 1
        try:
            verb, url, sent_headers, sent, _ = client.param_serialize(
                method, path, query_params=list(query.items()), header_params=headers, body=body,
                auth_settings=["BearerToken"])
            answer = client.call_api(verb, url, sent_headers, sent, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, OSError, OpenApiException) as error:
            raise self._away(error) from error
        except ValueError:  # its text holds the token
            raise AccessUnreadable(f"Access to {self.address} cannot be used: the token in the kubeconfig contains a "
                                   "character that is not allowed in tokens. Correct the file.") from None
        response: urllib3.BaseHTTPResponse = answer.response
        return response

    def is_starting(self, timeout: tuple[float, float] = TIMEOUT) -> bool:
        """Whether the server has just been started, so that what it says of rights is not meant. Asks it."""
        now = time.monotonic()
        if now - self._away_at < JUST_BACK:
            return True
        try:
            self._call("GET", READY, {}, None, JSON, timeout)
        except ApiRefusal as refusal:
            # with empty caches this, too, is forbidden, as all that every account may
            if refusal.code >= 500 or refusal.code == 403 and self._is_forbidden(VERSION, timeout):
                self._starting_since = now if self._starting_since is None else self._starting_since
                return now - self._starting_since < STARTS_WITHIN
        except ApiAway:
            return True
        self._starting_since = None
        return False

    def _is_forbidden(self, path: str, timeout: tuple[float, float]) -> bool:
        try:
            self._call("GET", path, {}, None, JSON, timeout)
        except ApiRefusal as refusal:
            return refusal.code == 403
        return False

    def _made_out(self, refusal: ApiRefusal, timeout: tuple[float, float]) -> ApiRefusal:
        if refusal.is_lack_of_rights:
            refusal.is_starting = self.is_starting(timeout)
        return refusal

    def _away(self, error: BaseException) -> ApiAway:
        self._away_at = time.monotonic()
        reason = getattr(error, "reason", None) or error
        is_tls = isinstance(reason, urllib3.exceptions.SSLError | ssl.SSLError)
        code = "certificate_refused" if is_tls else "unreachable"
        return ApiAway(Reason(code, said=f"The Kubernetes API at {self.address} cannot be reached: {_plain(reason)}."))


class Watch:
    """An open watch. ``close`` may be called from another thread; ``events`` then ends."""

    def __init__(self, response: urllib3.BaseHTTPResponse, away: Any) -> None:
        self._response, self._away = response, away
        self._closed = False

    def events(self) -> Iterator[Object]:
        """Each event as it comes: {"type", "object"}. Ends when the server ends the watch. Raises ApiAway."""
        rest = b""
        try:
            for piece in self._response.stream(None, decode_content=True):
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > MOST_BYTES:
                    raise OSError(f"an event of a watch has more than {MOST_BYTES // 1024 ** 2} MB")
                for line in lines:
                    event = _json(line) if line.strip() else None
                    if event is not None:
                        yield event
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if self._closed:
                return  # by another thread, while we read: urllib3 then misses its file
            if isinstance(error, AttributeError):
                raise
            raise self._away(error) from error
        finally:
            self.close()

    def close(self) -> None:
        """End it. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        try:
            self._response.shutdown()  # wakes a thread that waits for the next line
        except (ValueError, OSError, AttributeError, RuntimeError):
            logger.debug("a watch could not be shut down", exc_info=True)
        self._response.close()


def error_of(refusal: ApiRefusal, doing: str) -> TemporaryError | PermanentError:
    """What a refusal means for a trial. ``doing``: "create the Job", for the sentence."""
    said = str(refusal).rstrip(".")
    if refusal.code == 429:
        return _again("too_many_calls", f"The Kubernetes API limits the rate of requests and did not {doing}. The "
                                        "request is sent again.",
                      refusal.retry_after if refusal.retry_after is not None else 1.0)
    if refusal.code >= 500:
        return _again("server_fault", f"The Kubernetes API failed when asked to {doing} ({refusal.code}): {said}.",
                      refusal.retry_after)
    if refusal.code == 401:
        return _again("log_in_refused", f"The Kubernetes API does not accept the server's credentials (to {doing}): "
                                        f"{said}. Renew the token or certificate in the kubeconfig.", 15.0)
    if refusal.is_starting:
        return _again("server_fault", "The Kubernetes API is starting and has not loaded its permissions yet, so it "
                                      f"did not {doing}.", 5.0)
    if refusal.code == 403 and "exceeded quota" in said:
        return TemporaryError(Reason("platform_quota", said=f"The namespace's quota is used up: {said}.",
                                     platform="Kubernetes"), ROOM_AGAIN)
    if refusal.code == 403 and "is forbidden: " in said and not refusal.is_lack_of_rights:
        return _again("not_permitted", f"The namespace's rules do not allow to {doing}: {said}. Change the role in the "
                      "file, or the rules.", 30.0)
    if refusal.code == 403 and "admission webhook" not in said:
        return _again("not_permitted", f"The server's account is not permitted to {doing}: {said}. Give it the role in "
                                       "docs/deploy/kubernetes/role.yaml.", 30.0)
    if refusal.code == 404:
        return _again("settings_unusable", f"The cluster cannot {doing}: {said}. Create what is missing, or correct "
                                           "the settings.", 30.0)
    if refusal.code == 409:
        return TemporaryError(f"The Kubernetes API saw a conflict when asked to {doing}: {said}.")
    return PermanentError(f"The Kubernetes API refuses to {doing} ({refusal.code} {refusal.reason}): {said}.")


def _again(code: str, said: str, pause: float | None) -> TemporaryError:
    return TemporaryError(Reason(code, said=said), pause)


def _configuration(access: ApiAccess) -> Configuration:
    configuration = Configuration()
    try:
        if access.kubeconfig is None and access.context is None and _in_a_pod():
            kubernetes_config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration)
        else:
            path = None if access.kubeconfig is None else str(access.kubeconfig.expanduser())
            if path is not None:
                read_yaml_file(Path(path).resolve())  # the client's own reader has no limits
            kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=path, context=access.context, persist_config=False, client_configuration=configuration)
    except (kubernetes_config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError,
            AttributeError) as error:  # the client takes a file for a mapping without looking
        where = access.kubeconfig or "kubectl's own kubeconfig (KUBECONFIG or ~/.kube/config)"
        raise AccessUnreadable(f"Access to Kubernetes cannot be read from {where}: {_plain(error)}. Set kubeconfig and "
                               "context, let the server's user read it, or run the server in the cluster.") from error
    _without_line_ends(configuration)
    configuration.retries = False
    configuration.connection_pool_maxsize = POOL_SIZE
    return configuration


def _without_line_ends(configuration: Configuration) -> None:
    """A file with nothing but a token mostly ends with a line end, which kubectl does not mind either.

    The client reads the token again before each request.
    """
    refresh: Callable[[Configuration], None] | None = configuration.refresh_api_key_hook

    def stripped(changed: Configuration) -> None:
        if refresh is not None:
            refresh(changed)
        changed.api_key = {name: str(value).strip() for name, value in changed.api_key.items()}

    configuration.refresh_api_key_hook = stripped  # type: ignore[assignment]


def _in_a_pod() -> bool:
    import os

    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not os.environ.get("KUBECONFIG")


def _json(data: bytes) -> Object | None:
    try:
        document = read_json(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _refusal(response: urllib3.BaseHTTPResponse, document: Object | None, data: bytes) -> ApiRefusal:
    pause = whole_number(response.headers.get("Retry-After", ""))
    retry_after = None if pause is None else float(min(pause, 3600))
    if document is None or document.get("kind") != "Status":
        text = data.decode(errors="replace").strip()[:300] or str(response.reason)
        return ApiRefusal(response.status, str(response.reason or ""), text, retry_after)
    return ApiRefusal(response.status, str(document.get("reason") or ""), str(document.get("message") or ""),
                      retry_after)


def _plain(error: object) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return error.strerror  # without number and path, which Python adds
    return str(error).rstrip(".") or type(error).__name__
