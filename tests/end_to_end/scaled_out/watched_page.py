"""What a browser's open page hears: a websocket of a signed-in person."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
from websockets.sync.client import ClientConnection, connect

from tests.end_to_end.running_server import RunningServer
from tests.end_to_end.scaled_out.postgresql_server import PASSWORD

#: Seconds for what is waited for to be heard.
PATIENCE = 60.0


class WatchedPage:
    """An experiment's page: the rows of its trials as they are shown, by id."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.experiment: dict[str, Any] = {}
        self.trials: dict[str, dict[str, Any]] = {}

    def hear_until(self, condition: Callable[[], Any]) -> None:
        """Take frames until the page shows what is wanted."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            left = deadline - time.monotonic()
            assert left > 0, f"not shown within {PATIENCE:.0f} s; it shows {self.trials}"
            frame = json.loads(self._connection.recv(left))
            self.experiment = frame.get("experiment") or self.experiment
            self.trials.update({trial["id"]: trial for trial in frame.get("trials", ())})


@contextmanager
def watched_experiment(web: RunningServer, experiment: str) -> Iterator[WatchedPage]:
    """The page of an experiment at one web, open for the time of the block."""
    session = requests.Session()
    session.get(f"{web.url}/sign-in/")
    page = session.post(f"{web.url}/sign-in/", {"username": "admin", "password": PASSWORD,
                                                "csrfmiddlewaretoken": session.cookies["csrftoken"]})
    assert page.url == f"{web.url}/", "signed in"
    with connect(web.url.replace("http", "ws", 1) + "/live/", origin=web.url, proxy=None,  # type: ignore[arg-type]
                 additional_headers={"Cookie": f"sessionid={session.cookies['sessionid']}"}) as connection:
        connection.send(json.dumps({"watch": f"experiment/{experiment}", "since": 0}))
        yield WatchedPage(connection)
