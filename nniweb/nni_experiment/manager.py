"""The process that NNI starts for an experiment: it launches it on a server, and answers NNI's clients on NNI's port.

Whoever starts it gives NNI's arguments. It ends like NNI's: after DELETE /experiment, and after SIGTERM; both stop the
experiment, except one that is only viewed. When it is killed, the experiment continues on the server.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from nniweb.client.errors import ClientError, NotFound, WaitedTooLong
from nniweb.client.experiment import Experiment
from nniweb.client.own_server import connect, launch_in_place
from nniweb.nni_experiment.requests_of_nni import Answer, Handler, sentence
from nniweb.nniapi.profile_database import write_profile
from nniweb.nniapi.registry import change_entry

#: Seconds for which a first request waits for the server; NNI's client gives up after 20, and asks four times.
CONNECT_WITHIN = 15.0
#: Seconds between two looks at the experiment's status, for NNI's registry; and for its end.
LOOK_EVERY, END_WITHIN = 3.0, 45.0
#: What people change while an experiment runs, as NNI's config has it.
_CHANGED = ("trialConcurrency", "maxTrialNumber", "maxExperimentDuration", "searchSpace")
_MAPPING = "nniweb.json"


class Manager:
    """One experiment of NNI's, from its launch to its end. ``answer`` is called on several threads."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.experiment: Experiment | None = None
        self.is_over = threading.Event()
        self._folder = Path(options.experiments_directory) / options.experiment_id
        self._config: dict[str, Any] = {}
        self._guard = threading.Lock()  # the client is one thread's at a time
        self._is_connected = threading.Event()
        self._trouble = ""
        self._said_status = ""

    def connect(self) -> None:
        """Find or start the server. Called once, on a thread of its own."""
        try:
            self._client = connect()
        except Exception as error:
            self._trouble = str(error)
        self._is_connected.set()

    # --- requests --------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> Answer:
        """What NNI's manager answers to ``/api/v1/nni/`` and the path."""
        if not self._is_connected.wait(CONNECT_WITHIN):
            return sentence(503, "The server of NNI Web is being started. Ask again.")
        if self._trouble:
            return sentence(500, self._trouble)
        with self._guard:
            try:
                return self._answer(method, path.strip("/"), query, body)
            except NotFound as error:
                return sentence(404, str(error))
            except (ClientError, OSError, ValueError, sqlite3.Error) as error:
                return sentence(500, str(error))

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> Answer:
        if (method, path) == ("POST", "experiment"):
            config = json.loads(body)
            if not isinstance(config, dict):
                raise ValueError("The body must be the config, an object.")
            self._begin(config)
            return Answer(200, json.dumps({"experiment_id": self.options.experiment_id}).encode())
        if self.experiment is None:
            if (method, path) == ("GET", "check-status"):
                return Answer(200, b'{"status": "INITIALIZED", "errors": []}')
            return sentence(500, "The experiment has not been started.")
        if (method, path) == ("DELETE", "experiment"):
            if self.options.action != "view":
                self.experiment.stop()
            return Answer(200, b"", is_last=True)
        found = self._client.nni(method, self.experiment.id, path, params=query, body=body or None)
        if method == "PUT" and found.ok:
            self._note_changes()
        is_json = found.headers.get("Content-Type", "").startswith("application/json")
        return Answer(found.status_code, self._as_here(path, found.content) if found.ok and is_json else found.content,
                      found.headers.get("Content-Type", "application/json"))

    def _as_here(self, path: str, content: bytes) -> bytes:
        """The experiment has NNI's id here, and this process is the one to ask and to end."""
        if path not in ("experiment", "experiment-metadata", "experiments-info") or not content:
            return content
        own = {"id": self.options.experiment_id}
        if path != "experiment":
            own |= {"port": self.options.port, "pid": os.getpid(), "prefixUrl": self.options.url_prefix or None,
                    "webuiUrl": [f"http://127.0.0.1:{self.options.port}"],
                    "logDir": self.options.experiments_directory}
        found = json.loads(content)
        return json.dumps([{**each, **own} for each in found] if isinstance(found, list)
                          else {**found, **own}).encode()

    @property
    def page(self) -> str:
        """Where a browser that comes to NNI's port is sent."""
        if self.experiment is not None:
            return self.experiment.url
        return self._client.server if self._is_connected.is_set() and not self._trouble else ""

    # --- the experiment --------------------------------------------------------------------------------------

    def _begin(self, config: dict[str, Any]) -> None:
        if self.experiment is not None:
            raise ValueError("The experiment was already started.")
        self._config = config
        if self.options.action == "create":
            self.experiment, why_copied = launch_in_place(self._client, config)
            if why_copied:
                sys.stderr.write(f"{why_copied}\n")
            (self._folder / "db").mkdir(parents=True, exist_ok=True)
            (self._folder / _MAPPING).write_text(json.dumps({"experiment": self.experiment.id,
                                                             "url": self.experiment.url}))
            self._write_config()
            return
        found = self._known()
        if self.options.action == "resume":
            self._resume(found, config)
        self.experiment = found

    def _known(self) -> Experiment:
        """The experiment that was launched under NNI's id. Raises NotFound."""
        try:
            known = str(json.loads((self._folder / _MAPPING).read_text())["experiment"])
        except (OSError, ValueError, KeyError):
            known = self.options.experiment_id
        return self._client.experiment(known)

    @staticmethod
    def _resume(experiment: Experiment, config: Mapping[str, Any]) -> None:
        """Go on; one that is done goes on only with a higher limit, which may also be given afterwards, as in NNI."""
        wanted = config.get("maxTrialNumber")
        if isinstance(wanted, int) and wanted > (experiment.document["max_trial_number"] or wanted):
            experiment.change(max_trial_number=wanted)
        if experiment.status in ("STOPPED", "ERROR", "PAUSED"):
            experiment.resume()

    def _note_changes(self) -> None:
        assert self.experiment is not None
        params = self._client.nni("GET", self.experiment.id, "experiment").json()["params"]
        self._config |= {name: params[name] for name in _CHANGED if name in params}
        self._write_config()

    def _write_config(self) -> None:
        """Where NNI looks for the config of an experiment that it resumes or views."""
        if self.options.action == "create" or (self._folder / "db").is_dir():
            write_profile(self._folder / "db", {"params": self._config, "id": self.options.experiment_id, "revision": 1,
                                                "execDuration": 0, "startTime": int(time.time() * 1000),
                                                "logDir": self.options.experiments_directory, "nextSequenceId": 0})

    def tell_registry(self) -> None:
        """Write the status into NNI's registry where it is another one."""
        with self._guard:
            if self.experiment is None:
                return
            try:
                status = self.experiment.refresh(patience=0).status
            except NotFound:
                status = "STOPPED"  # it was deleted
            except ClientError:
                return  # the next look makes up for it
        if status != self._said_status:
            self._said_status = status
            change_entry(self.options.experiment_id, {"status": "RUNNING" if status == "PAUSED" else status})

    def end(self) -> None:
        """Stop the experiment where it is not only viewed, and wait for that; the server may end with this process."""
        if self.experiment is not None and self.options.action != "view":
            with self._guard:
                try:
                    self.experiment.stop().wait(END_WITHIN)
                except (ClientError, WaitedTooLong) as error:
                    sys.stderr.write(f"{error}\n")
        change_entry(self.options.experiment_id, {"status": "STOPPED"})


def main(arguments: list[str] | None = None) -> None:
    """For the life of NNI's experiment."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    manager = Manager(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: manager.is_over.set())
    threading.Thread(target=manager.connect, name="connect", daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), type("OfManager", (Handler,), {
        "answer_of": staticmethod(manager.answer), "page_of": staticmethod(lambda: manager.page),
        "end": staticmethod(manager.is_over.set), "prefix": options.url_prefix.strip("/")}))
    threading.Thread(target=server.serve_forever, name="requests", daemon=True).start()
    while not manager.is_over.wait(LOOK_EVERY):
        manager.tell_registry()
    server.shutdown()
    server.server_close()
    manager.end()


def _options(arguments: list[str]) -> argparse.Namespace:
    """NNI's arguments; those for its own program are ignored."""
    parser = argparse.ArgumentParser(prog="node", allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--experiment-id", required=True)
    parser.add_argument("--action", choices=["create", "resume", "view"], required=True)
    parser.add_argument("--experiments-directory", required=True)
    parser.add_argument("--url-prefix", default="")
    return parser.parse_known_args(arguments)[0]


if __name__ == "__main__":
    main()
