"""A loopback port for one experiment, without a token: the official client knows nothing but ports.

Whoever can open a connection on this machine may steer that experiment, as with NNI itself; ``serve --nni-port`` says
so when it opens one. Such a port answers NNI's addresses alone, and only where the browser's page did not come from
elsewhere.
"""

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from nniweb.experiments.access.request_actor import known_as
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.http.asgi import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope
from nniweb.middleware.nni_port import NNI_PORT
from nniweb.middleware.origins import comes_from_own_page
from nniweb.nniapi.stand_in import StandIn

NNI_ROOT = "/api/v1/nni/"

_open: dict[str, "NniPort"] = {}


class NniPort:
    """One open port. ``start`` once the server listens, ``close`` when it ends."""

    def __init__(self, experiment: Experiment, port: int) -> None:
        self.experiment_id = experiment.public_id
        self.port = port
        self.stand_in = StandIn(experiment.public_id, port)

    def start(self) -> None:
        _open[self.experiment_id] = self
        self.stand_in.start()

    def close(self) -> None:
        _open.pop(self.experiment_id, None)
        self.stand_in.close()


def port_and_pid(experiment_id: str) -> tuple[int | None, int | None]:
    """Where the experiment has a port of its own, that and the process that stands for it."""
    port = _open.get(experiment_id)
    return (port.port, port.stand_in.pid) if port is not None else (None, None)


def stop_was_asked(experiment_id: str) -> None:
    """A client of NNI's has asked for the experiment's end, and waits for the end of its process."""
    if (port := _open.get(experiment_id)) is not None:
        port.stand_in.end_with_experiment()


def with_nni_ports(application: ASGI3Application, ports: dict[int, str]) -> ASGI3Application:
    """The application, answering for one experiment alone on each of these ports (port -> public id)."""

    async def routed(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        # of the socket itself, not of a header: nobody can pretend to have come through such a port
        server = scope.get("server")
        experiment_id = ports.get(server[1]) if server else None
        if experiment_id is None:
            await application(scope, receive, send)
        elif scope["type"] == "http" and not _comes_from_elsewhere(scope):
            path = f"/nni/{experiment_id}{scope['path']}"
            await application({**scope, "path": path, "raw_path": path.encode(), NNI_PORT: experiment_id},
                              receive, send)
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
