"""What the verbs share: the server, the experiment that is meant, and what is printed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, TextIO

from nniweb.client.commands import found_experiment
from nniweb.client.connection import Client
from nniweb.client.errors import ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.own_server import UNFINISHED, connect, own_command, own_environment
from nniweb.client.words import printable_lines


class Session:
    """One call of the command. ``client`` finds or starts the server when it is used first."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self.out, self.err = out, err
        #: Where the server listens if it must be started; None: a free port.
        self.port: int | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect(port=self.port, stays=True)
        return self._client

    def say(self, text: str) -> None:
        self.out.write(f"{printable_lines(text)}\n")

    def say_json(self, document: Any) -> None:
        """As NNI prints it."""
        self.say(json.dumps(document, indent=4, sort_keys=True))

    def refuse(self, sentence: str) -> None:
        """Raises ClientError."""
        raise ClientError(sentence)

    def unfinished(self) -> Sequence[Experiment]:
        return self.client.experiments(status=UNFINISHED, archived="all")

    def experiment(self, given: str | None) -> Experiment:
        """The one that is named, else the only one that has not ended. Raises ClientError."""
        if given is not None:
            return found_experiment(self.client, given)
        found = self.unfinished()
        if len(found) == 1:
            return found[0]
        if not found:
            raise ClientError("No experiment runs. Give the id of one; nnictl experiment list --all lists them.")
        raise ClientError("Several experiments run. Give the id of one: "
                          f"{', '.join(f'{each.name} ({each.id})' for each in found[:10])}.")

    def nni(self, experiment: Experiment, path: str, method: str = "GET") -> Any:
        """What NNI's REST interface answers for the experiment. Raises ClientError."""
        answer = self.client.nni(method, experiment.id, path)
        try:
            document = answer.json() if answer.content else None
        except ValueError:
            document = None
        if not answer.ok:
            said = document.get("error") if isinstance(document, dict) else None
            raise ClientError(str(said or f"The server answered with {answer.status_code}."))
        return document

    def own_command(self, *arguments: str) -> int:
        """Run a command of this installation; returns its exit status."""
        self.out.flush()
        return subprocess.run([*own_command(), *arguments], env=own_environment(), check=False).returncode
