"""The address of a server that itself runs as a job of the cluster: a port of that job, opened on its node."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from trainingservice.dlts.api import ENDPOINT_PORTS, DltsApi
from trainingservice.errors import PermanentError, TemporaryError

#: Inside a job: its own id.
JOB_VARIABLE = "DLTS_JOB_ID"
NAME = "nniweb"


class JobEndpoint:
    """Finds the address once; then it stays. May be used from several threads."""

    def __init__(self, api: DltsApi, urls: Callable[[], tuple[str, ...]]) -> None:
        """``urls``: where the server answers on its own machine."""
        self._api, self._urls = api, urls
        self._lock = threading.Lock()
        self._found: tuple[str, ...] | None = None

    def addresses(self) -> tuple[str, ...]:
        """() where this server is no job of the cluster.

        Raises TemporaryError while the port is being opened; PermanentError where it is one that cannot be.
        """
        job_id = os.environ.get(JOB_VARIABLE)
        if not job_id:
            return ()
        with self._lock:
            if self._found is None:
                self._found = (self._open(job_id),)
            return self._found

    def _open(self, job_id: str) -> str:
        port = next((urlsplit(url).port for url in self._urls() if urlsplit(url).port), None)
        if port is None or port not in ENDPOINT_PORTS:
            raise PermanentError(f"This server is a job of the cluster and listens on port {port}; DLTS opens only "
                                 f"ports {ENDPOINT_PORTS.start} to {ENDPOINT_PORTS.stop - 1}. Start the server with "
                                 "NNIWEB_PORT=40000, or set channel: storage.")
        mine = [row for row in self._api.endpoints(job_id) if str(row.get("podPort")) == str(port)]
        if not mine:
            self._api.open_port(job_id, NAME, port)
        running = next((row for row in mine if row.get("status") == "running"), None)
        if running is None:
            raise TemporaryError("The cluster is opening a port for this server, so that trials can call "
                                 "it.", retry_after=1.0)
        return f"http://{running['nodeName']}:{running['port']}"
