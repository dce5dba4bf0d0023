"""``manage.py serve``: web, worker and live pages in one process. The way to run NNI Web on one machine."""

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from nniweb.doctor.free_port import HOW_TO_CHOOSE, why_no_port
from nniweb.middleware.gate import Gate
from nniweb.middleware.require_tls import why_not_listen
from nniweb.observability import traces
from nniweb.process.descriptors import raise_limit
from nniweb.process.forced_exit import leave_within
from nniweb.process.freed_memory import use_few_arenas
from nniweb.startup.server_opening import Opening
from nniweb.storage.data_folder import DataFolderLocked, ServerLock, why_half_restored
from nniweb.storage.own_files import START
from trialkeeper.shortage import is_shortage
from trialkeeper.whole_number import whole_number


class Command(BaseCommand):
    help = "Start the web server and a worker in one process."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=settings.PORT, help="port (default: %(default)s)")
        parser.add_argument("--nni-port", action="append", default=[], metavar="EXPERIMENT=PORT",
                            help="answer NNI's own clients for this experiment on a loopback port, without a token, "
                                 "until the server ends; may be repeated. nni-port does it while the server runs")

    def handle(self, *args: Any, host: str, port: int, nni_port: list[str], **options: Any) -> None:
        lock = ServerLock(settings.DATA_FOLDER)
        try:
            lock.acquire()
        except DataFolderLocked as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"The data folder {settings.DATA_FOLDER} cannot be used: {error.strerror or error}. "
                               "Free disk space, correct the folder's permissions, or choose another folder with "
                               "NNIWEB_DATA.") from None
        try:
            if why_not := why_half_restored(settings.DATA_FOLDER):
                raise CommandError(why_not)
            if why_not := why_not_listen(host, allowed=settings.MAY_BE_REACHED):
                raise CommandError(why_not)
            _port_must_be_free(host, port)
            raise_limit()
            use_few_arenas()
            self._serve(lock, host, port, nni_port)
        finally:
            lock.release()

    def _serve(self, lock: ServerLock, host: str, port: int, nni_port: list[str]) -> None:
        nni_ports = _nni_ports(nni_port)
        # daphne installs its reactor when it is imported: not before it is needed
        from twisted.internet import reactor

        from nniweb.web_server.server import Server

        gate = Gate()
        opening = Opening(lock, gate, f"http://{_shown_host(host)}:{port}", nni_ports,
                          lambda number: server.listen_on_loopback(number), self._say,
                          give_up=lambda: reactor.callFromThread(server.stop))

        endpoints = [_endpoint(host, port)]
        server = Server(application=gate, endpoints=endpoints, signal_handlers=True,
                        action_logger=None, http_timeout=None, server_name="NNI Web", verbosity=0,
                        ready_callable=opening.start)
        try:
            server.run()
        except (RuntimeError, MemoryError) as error:
            if not is_shortage(error):
                raise
            raise CommandError("The server cannot be started, because the machine has no thread to spare. Raise the "
                               "limit on processes and threads (ulimit -u, TasksMax=), or end programs that use too "
                               "many.") from None
        leave_within()
        failure = opening.failure
        if not failure and len(server.listening_addresses) < len(endpoints):
            failure = f"The server cannot listen on port {port} of {host}: another program uses it. {HOW_TO_CHOOSE}"
        if not failure:
            self._say(f"\nStopping. Running trials continue, and the next start finds them again ({START}).")
        opening.close()
        traces.end()
        self.stdout.flush()
        if failure:
            self.stderr.write(f"CommandError: {failure}")
            self.stderr.flush()
        # not sys.exit: that waits for threads, and one may hang in a platform's call or a slow request;
        # everything of ours is committed, and the lock on the data folder goes with the process
        os._exit(1 if failure else 0)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _nni_ports(written: list[str]) -> dict[str, int]:
    """The ports of ``--nni-port`` by the public id that was given for each. Raises CommandError."""
    found: dict[str, int] = {}
    for text in written:
        name, separator, number = text.partition("=")
        if not separator or whole_number(number) is None:
            raise CommandError(f"--nni-port {text}: expected EXPERIMENT=PORT, such as --nni-port abc123def456=8081.")
        _port_must_be_free("127.0.0.1", int(number))
        if name in found or int(number) in found.values():
            raise CommandError(f"--nni-port {text}: each experiment and each port can be given once.")
        found[name] = int(number)
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
