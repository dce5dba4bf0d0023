"""A loopback port for one experiment, without a token: the official client knows nothing but ports.

Whoever can open a connection on this machine may steer that experiment, as with NNI itself; ``serve --nni-port`` says
so when it opens one. Such a port answers NNI's addresses alone, and only where the browser's page did not come from
elsewhere.

NNI's tools believe that an experiment is a process: they look for its id, wait for its end, and stop it with SIGTERM.
So each port has a small process that does nothing. Ending it stops the experiment; stopping the experiment ends it.
"""

import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from django.db import connection
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from nniweb.experiments import intents
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.nniapi.documents import registry_entry

logger = logging.getLogger(__name__)

Application = Callable[[MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]],
                       Awaitable[None]]

NNI_ROOT = "/api/v1/nni/"
_SCOPE_KEY = "nniweb.nni_port"
#: Waits for the end of its input, which comes with the end of the server.
_STAND_IN = "import sys; sys.stdin.read()"

_open: dict[str, "NniPort"] = {}


class NniPort:
    """One open port. ``start`` once the server listens, ``close`` when it ends."""

    def __init__(self, experiment: Experiment, port: int) -> None:
        self.experiment_id = experiment.public_id
        self.port = port
        self._stand_in: subprocess.Popen[bytes] | None = None
        self._is_expected = False

    @property
    def pid(self) -> int | None:
        return self._stand_in.pid if self._stand_in is not None else None

    def start(self) -> None:
        _open[self.experiment_id] = self
        self._stand_in = subprocess.Popen([sys.executable, "-c", _STAND_IN], stdin=subprocess.PIPE,
                                          stdout=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=self._watch, args=[self._stand_in], name=f"NNI port {self.port}", daemon=True).start()
        experiment = Experiment.objects.select_related("cluster").get(public_id=self.experiment_id)
        _change_registry(self.experiment_id, registry_entry(experiment, self.port, self.pid))

    def end_stand_in(self) -> None:
        """The experiment was stopped: clients that wait for its process go on."""
        self._is_expected = True
        if self._stand_in is not None:
            self._stand_in.terminate()

    def close(self) -> None:
        self.end_stand_in()
        _open.pop(self.experiment_id, None)
        _change_registry(self.experiment_id, None)

    def _watch(self, stand_in: "subprocess.Popen[bytes]") -> None:
        stand_in.wait()
        if self._is_expected:
            return
        logger.info("experiment %s is stopped: the process of its NNI port was ended", self.experiment_id)
        try:
            intents.stop(Experiment.objects.get(public_id=self.experiment_id))
        except Exception:
            logger.exception("experiment %s could not be stopped", self.experiment_id)
        finally:
            connection.close()


def port_and_pid(experiment_id: str) -> tuple[int | None, int | None]:
    """Where the experiment has a port of its own, that and the process that stands for it."""
    port = _open.get(experiment_id)
    return (port.port, port.pid) if port is not None else (None, None)


def experiment_was_stopped(experiment_id: str) -> None:
    if (port := _open.get(experiment_id)) is not None:
        port.end_stand_in()


def with_nni_ports(application: Application, ports: dict[int, str]) -> Application:
    """The application, answering for one experiment alone on each of these ports (port -> public id)."""

    async def routed(scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]],
                     send: Callable[[Any], Awaitable[None]]) -> None:
        # of the socket itself, not of a header: nobody can pretend to have come through such a port
        server = scope.get("server")
        experiment_id = ports.get(server[1]) if server else None
        if experiment_id is None:
            await application(scope, receive, send)
        elif scope["type"] == "http" and not _comes_from_elsewhere(scope):
            path = f"/nni/{experiment_id}{scope['path']}"
            await application({**scope, "path": path, "raw_path": path.encode(), _SCOPE_KEY: experiment_id},
                              receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403,
                        "headers": [(b"content-type", b"application/json")]})
            await send({"type": "http.response.body",
                        "body": b'{"error": "Pages of other sites may not use this port."}'})
        else:
            await send({"type": "websocket.close"})

    return routed


def _comes_from_elsewhere(scope: MutableMapping[str, Any]) -> bool:
    """Whether a browser says that another site's page asks."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


class PortAuthentication(BaseAuthentication):
    """Who comes through an experiment's own port acts as its owner, on that experiment."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        scope: dict[str, Any] = getattr(request._request, "scope", {})
        experiment_id = scope.get(_SCOPE_KEY)
        if experiment_id is None:
            return None
        experiment = Experiment.objects.select_related("owner").filter(public_id=experiment_id).first()
        owner = experiment.owner if experiment is not None else None
        if owner is None or not owner.is_active:
            owner = User.objects.filter(is_active=True, role=Role.ADMIN).order_by("pk").first()
        return None if owner is None else (owner, None)


def _change_registry(experiment_id: str, entry: dict[str, Any] | None) -> None:
    """Put an entry into NNI's registry of experiments, ~/nni-experiments/.experiment, or take it out."""
    folder = Path.home() / "nni-experiments"
    try:
        folder.mkdir(exist_ok=True)
        with open(folder / ".experiment.nniweb-lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = folder / ".experiment"
            entries = _entries(file)
            entries.pop(experiment_id, None)
            if entry is not None:
                entries[experiment_id] = entry
            draft = file.with_name(f".experiment.{os.getpid()}")
            draft.write_text(json.dumps(entries, indent=4))
            draft.replace(file)
    except OSError as error:
        logger.warning("NNI's registry in %s cannot be kept (%s): nnictl does not find the experiment, "
                       "Experiment.connect does", folder, error)


def _entries(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise OSError("it is no JSON") from None
    if not isinstance(found, dict):
        raise OSError("it is no object")
    return found
