"""``manage.py serve``: web, worker and live pages in one process. The way to run NNI Web on one machine."""

import os
import threading
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from nniweb.data_folder import DataFolderLocked, ServerLock
from nniweb.descriptors import raise_limit
from nniweb.doors.clear_text import why_not_listen
from nniweb.doors.free_port import why_no_port
from nniweb.experiments.migrated import is_of_this_version
from nniweb.own_files import COMMAND, START

if TYPE_CHECKING:  # when running, loaded after the migration
    from nniweb.nniapi.ports import NniPort


class Command(BaseCommand):
    help = "Start the web server and a worker in one process."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=settings.PORT, help="port (default: %(default)s)")
        parser.add_argument("--nni-port", action="append", default=[], metavar="EXPERIMENT=PORT",
                            help="answer NNI's own clients for this experiment on a loopback port, without a token; "
                                 "may be repeated")

    def handle(self, *args: Any, host: str, port: int, nni_port: list[str], **options: Any) -> None:
        lock = ServerLock(settings.DATA_FOLDER)
        try:
            lock.acquire()
        except DataFolderLocked as error:
            raise CommandError(str(error)) from None
        try:
            if why_not := why_not_listen(host, allowed=settings.MAY_BE_REACHED):
                raise CommandError(why_not)
            _port_must_be_free(host, port)
            raise_limit()
            self._serve(lock, host, port, nni_port)
        finally:
            lock.release()

    def _serve(self, lock: ServerLock, host: str, port: int, nni_port: list[str]) -> None:
        self._bring_up_to_date()
        nni_ports = _nni_ports(nni_port)
        from nniweb.worker.supervisor import Supervisor

        supervisor = Supervisor()
        supervisor.prepare()
        # daphne installs its reactor when it is imported: not before it is needed
        from daphne.server import Server

        from nniweb.asgi import application, keeper_application
        from nniweb.first_start import first_user, sign_in_address
        from nniweb.nniapi.ports import with_nni_ports

        url = f"http://{_shown_host(host)}:{port}"
        user = first_user()
        worker = threading.Thread(target=supervisor.run, name="worker")

        def ready() -> None:
            lock.write_address([url])
            self.stdout.write(f"\nNNI Web is running at {url}\n"
                              f"Sign in with this link (once, within an hour):\n\n    "
                              f"{sign_in_address(url, user)}\n\n"
                              f"Data folder: {settings.DATA_FOLDER}\nCtrl-C ends the server; running trials go on.\n")
            for opened in nni_ports:
                opened.start()
                self.stdout.write(f"NNI's clients find experiment {opened.experiment_id} at port {opened.port} of this "
                                  "machine, without a token: every local user may steer this experiment.\n")
            self.stdout.flush()
            connection.close()
            worker.start()
            threading.Thread(target=self._launch_demo, args=[user], name="demo", daemon=True).start()

        def listens() -> None:
            server.http_factory.log = lambda _: None  # Twisted writes a line for each request, which nobody gets to see
            # ready() uses the database, which may not be called on the event loop's thread
            threading.Thread(target=ready, name="ready").start()

        ports = {opened.port: opened.experiment_id for opened in nni_ports}
        routed = with_nni_ports(application, ports) if ports else application
        endpoints = [_endpoint(host, port), *(_endpoint("127.0.0.1", opened.port) for opened in nni_ports)]
        server = Server(application=routed, endpoints=endpoints, signal_handlers=True,
                        action_logger=None, http_timeout=None, server_name="NNI Web", verbosity=0,
                        ready_callable=listens)
        connection.close()
        server.run()
        self.stdout.write("\nStopping. Running trials go on and are found again at the next start "
                          f"({START}).")
        self.stdout.flush()
        for opened in nni_ports:
            opened.close()
        supervisor.stop()
        if worker.is_alive():
            worker.join(timeout=20)
        keeper_application.group_commit.close()
        connection.close()
        self.stdout.flush()
        # not sys.exit: that waits for threads, and one may hang in a platform's call or a slow request;
        # everything of ours is committed, and the lock on the data folder goes with the process
        os._exit(0)

    def _bring_up_to_date(self) -> None:
        if is_of_this_version():
            return
        from nniweb.upgrades.bringing_up_to_date import CannotUpgrade, bring_up_to_date

        try:
            bring_up_to_date(self._say, is_server=True)
        except CannotUpgrade as error:
            raise CommandError(str(error)) from error

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _launch_demo(self, user: Any) -> None:
        from nniweb.first_start import launch_demo

        try:
            experiment = launch_demo(user)
            if experiment is not None:
                self.stdout.write(f"The demo \"{experiment.name}\" is running: watch it at the address above.")
                self.stdout.flush()
        finally:
            connection.close()


def _nni_ports(written: list[str]) -> list["NniPort"]:
    """The ports of ``--nni-port``, checked. Raises CommandError."""
    from nniweb.experiments.models import Experiment
    from nniweb.nniapi.ports import NniPort

    found = []
    for text in written:
        name, separator, number = text.partition("=")
        if not separator or not number.isdigit():
            raise CommandError(f"--nni-port {text}: expected EXPERIMENT=PORT, such as --nni-port abc123def456=8081.")
        experiment = Experiment.objects.filter(public_id=name, deleted_at=None).first()
        if experiment is None:
            raise CommandError(f"--nni-port {text}: there is no experiment {name}; {COMMAND} experiments list "
                               "shows them.")
        _port_must_be_free("127.0.0.1", int(number))
        found.append(NniPort(experiment, int(number)))
    return found


def _port_must_be_free(host: str, port: int) -> None:
    if why_not := why_no_port(host, port):
        raise CommandError(why_not)


def _endpoint(host: str, port: int) -> str:
    escaped = host.replace(":", "\\:")
    return f"tcp{'6' if ':' in host else ''}:port={port}:interface={escaped}"


def _shown_host(host: str) -> str:
    """A host that a browser on this machine can open."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
