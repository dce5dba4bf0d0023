"""A loopback port for one experiment, without a token: the official client knows nothing but ports.

Whoever can open a connection on this machine may steer that experiment, as with NNI itself; the server says so when it
opens one. A second port, which the files of NNI 1 name, answers as that did. Such ports answer NNI's addresses alone,
and only where the browser's page did not come from elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from nniweb.experiments.access.request_actor import known_as
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.middleware.nni_port import NNI_PORT
from nniweb.middleware.origins import comes_from_own_page
from nniweb.nniapi.stand_in import StandIn

#: In the scope of a request through the port for NNI 1.
OF_NNI_1 = "nniweb.nni_1"


class Listener(Protocol):
    """A loopback port on which this server listens."""

    number: int

    def close(self) -> None: ...


#: Listens on a loopback port, 0 for any that is free. Raises OSError.
Listen = Callable[[int], Listener]


@dataclass(frozen=True)
class _Meaning:
    """What requests through a port are about."""

    experiment_id: str
    is_of_nni_1: bool


_meanings: dict[int, _Meaning] = {}
_open: dict[str, "NniPort"] = {}


class NniPort:
    """The open port of one experiment, until ``close``. Raises OSError where nobody can listen there."""

    def __init__(self, experiment_id: str, port: int, listen: Listen) -> None:
        self.experiment_id, self.port = experiment_id, port
        self._listener = listen(port)
        try:
            self._old_listener = listen(0)
        except BaseException:
            self._listener.close()
            raise
        self.stand_in = StandIn(experiment_id, port, self._old_listener.number)
        _meanings[port] = _Meaning(experiment_id, is_of_nni_1=False)
        _meanings[self._old_listener.number] = _Meaning(experiment_id, is_of_nni_1=True)
        _open[experiment_id] = self

    def close(self) -> None:
        _open.pop(self.experiment_id, None)
        for listener in (self._listener, self._old_listener):
            _meanings.pop(listener.number, None)
            listener.close()
        self.stand_in.close()


def port_and_pid(experiment_id: str) -> tuple[int | None, int | None]:
    """Where the experiment has a port of its own, that and the process that stands for it."""
    port = _open.get(experiment_id)
    return (port.port, port.stand_in.pid) if port is not None else (None, None)


def stop_was_asked(experiment_id: str) -> None:
    """A client of NNI's has asked for the experiment's end, and waits for the end of its process."""
    if (port := _open.get(experiment_id)) is not None:
        port.stand_in.end_with_experiment()


def with_nni_ports(application: ASGI3Application) -> ASGI3Application:
    """The application, answering for one experiment alone on each port that is open now."""

    async def routed(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        # of the socket itself, not of a header: nobody can pretend to have come through such a port
        server = scope.get("server")
        meaning = _meanings.get(server[1]) if server else None
        if meaning is None:
            await application(scope, receive, send)
        elif scope["type"] == "http" and not _comes_from_elsewhere(scope):
            path = f"/nni/{meaning.experiment_id}{scope['path']}"
            # without a root that a caller may have named: what is left of the path would lead to other experiments
            await application({**scope, "path": path, "raw_path": path.encode(), "root_path": "",
                               NNI_PORT: meaning.experiment_id, OF_NNI_1: meaning.is_of_nni_1}, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403,
                        "headers": [(b"content-type", b"application/json")]})
            await send({"type": "http.response.body",
                        "body": b'{"error": "Pages of other sites may not use this port."}'})
        else:
            await send({"type": "websocket.close"})

    return routed


def _comes_from_elsewhere(scope: Scope) -> bool:
    """Whether a browser says that another site's page asks."""
    return any(name.lower() == b"origin" for name, _ in scope["headers"]) and not comes_from_own_page(scope)


def is_of_nni_1(request: Request) -> bool:
    """Whether a client of NNI 1 asks."""
    return bool(getattr(request._request, "scope", {}).get(OF_NNI_1))


class PortAuthentication(BaseAuthentication):
    """Who comes through an experiment's own port acts as its owner, on that experiment."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        scope: dict[str, Any] = getattr(request._request, "scope", {})
        experiment_id = scope.get(NNI_PORT)
        if experiment_id is None:
            return None
        experiment = Experiment.objects.select_related("owner").filter(public_id=experiment_id).first()
        owner = experiment.owner if experiment is not None else None
        if owner is None or not owner.is_active:
            owner = User.objects.filter(is_active=True, role=Role.ADMIN).order_by("pk").first()
        if owner is None:
            return None
        known_as(owner, "the experiment's own port")
        return owner, None
