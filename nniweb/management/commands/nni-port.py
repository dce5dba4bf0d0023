"""``python manage.py nni-port EXPERIMENT PORT``: lets NNI's own clients reach an experiment, while the server runs."""

import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

import requests
from django.core.management.base import CommandError

from nniweb.doctor.free_port import why_no_port
from nniweb.experiments.access import audit
from nniweb.experiments.lifecycle.nni_ports import why_nni_port_is_closed
from nniweb.experiments.models import Experiment
from nniweb.management.asked_here import AskedHere
from nniweb.management.found_experiment import found_experiment
from nniweb.management.served_before import require_served_before
from nniweb.storage.own_files import COMMAND, START
from trainingservice.words.shown_value import shown

#: Seconds that a running server is given to open a port or to close it: it looks each second.
PATIENCE = 15.0


class Command(AskedHere):
    help = ("Answer nnictl and NNI's Python client for one experiment on a loopback port, without a token, until it is "
            "closed. Every user of this machine can then control this experiment. Without arguments, list these ports.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", nargs="?", help="id of the experiment, or its beginning")
        parser.add_argument("port", nargs="?", type=_port, help="a free port of this machine, such as 8081")
        parser.add_argument("--close", action="store_true", help="close the experiment's port")

    def handle(self, *args: Any, id: str | None, port: int | None, close: bool, **options: Any) -> None:
        require_served_before()
        if id is None:
            self._list()
        elif close == (port is not None):
            raise CommandError("Give the port to open, or --close.")
        elif port is not None:
            self._open(found_experiment(id), port)
        else:
            self._close(found_experiment(id))

    def _list(self) -> None:
        found = Experiment.objects.filter(deleted_at=None).exclude(nni_port=None).order_by("nni_port")
        for experiment in found:
            self.stdout.write(f"{experiment.nni_port}  {experiment}{_not_open(experiment)}")
        if not found:
            self.stdout.write(f"No experiment has a port for NNI's clients. Open one: {COMMAND} nni-port "
                              "EXPERIMENT 8081")

    def _open(self, experiment: Experiment, port: int) -> None:
        Experiment.objects.filter(nni_port=port).exclude(deleted_at=None).update(nni_port=None)
        other = Experiment.objects.filter(nni_port=port).exclude(pk=experiment.pk).first()
        if other is not None:
            raise CommandError(f"Port {port} belongs to {other}. Choose another port, or close that one: {COMMAND} "
                               f"nni-port {other.public_id} --close")
        if experiment.nni_port != port and (why_not := why_no_port("127.0.0.1", port)):
            raise CommandError(why_not.partition(" Choose another port with")[0] + " Choose another port.")
        Experiment.objects.filter(pk=experiment.pk).update(nni_port=port, nni_port_problem=None)
        audit.record("experiment.open-nni-port", experiment, port=port)
        if not _becomes(port, experiment.public_id, is_open=True):
            experiment.refresh_from_db(fields=["nni_port_problem"])
            if why_not := why_nni_port_is_closed(experiment):
                raise CommandError(why_not)
            raise CommandError(f"No server on this machine has opened port {port} yet. It is opened when the server "
                               f"runs ({START}). A web process that was started in another way does not open it.")
        self.stdout.write(f"NNI's clients find {experiment} at port {port} of this machine, without a token. Every "
                          "local user can control this experiment.")

    def _close(self, experiment: Experiment) -> None:
        port = experiment.nni_port
        if port is None:
            raise CommandError(f"{experiment} has no port that could be closed here. A port that was given with serve "
                               "--nni-port is closed with the server.")
        Experiment.objects.filter(pk=experiment.pk).update(nni_port=None, nni_port_problem=None)
        audit.record("experiment.close-nni-port", experiment, port=port)
        if not _becomes(port, experiment.public_id, is_open=False):
            raise CommandError(f"Port {port} still answers for {experiment}. A port that was given with serve "
                               "--nni-port is closed with the server.")
        self.stdout.write(f"Port {port} of {experiment} is closed.")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or not 1 <= int(text) <= 65535:
        raise ArgumentTypeError(f"{shown(text)} is not a valid port. Choose a port from 1 to 65535.")
    return int(text)


def _not_open(experiment: Experiment) -> str:
    """Why the experiment's port does not answer, for a list; "" where it does."""
    assert experiment.nni_port is not None
    if _answers(experiment.nni_port, experiment.public_id):
        return ""
    why = why_nni_port_is_closed(experiment) or (f"The port is not open. It is opened when the server runs ({START}).")
    return f". {why}"


def _becomes(port: int, experiment_id: str, *, is_open: bool) -> bool:
    """Wait until the port answers for the experiment, or does so no more."""
    deadline = time.monotonic() + PATIENCE
    while _answers(port, experiment_id) != is_open:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _answers(port: int, experiment_id: str) -> bool:
    with requests.Session() as session:
        session.trust_env = False  # no proxy leads to this machine
        try:
            answer = session.get(f"http://127.0.0.1:{port}/api/v1/nni/experiment-metadata", timeout=5)
            return bool(answer.ok and answer.json().get("id") == experiment_id)
        except (requests.RequestException, ValueError):
            return False
