"""``manage.py worker``: a worker process of its own, beside web servers that run elsewhere."""

import signal
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from nniweb.database.connection_limits import announce, warn_if_too_few
from nniweb.observability import traces
from nniweb.observability.worker_port import WorkerPort
from nniweb.process.forced_exit import leave_within
from nniweb.process.freed_memory import give_back_regularly, use_few_arenas
from nniweb.process.garbage import leave_alone_what_is_loaded
from nniweb.storage.data_folder import why_half_restored
from nniweb.upgrades.refusal import too_new_or_unknown
from nniweb.worker.supervisor import Supervisor


class Command(BaseCommand):
    help = "Run a worker, which starts trials, watches them and asks tuners. Several workers share the clusters."

    def handle(self, *args: Any, **options: Any) -> None:
        announce()
        if why_not := why_half_restored(settings.DATA_FOLDER):
            raise CommandError(why_not)
        if why_not := too_new_or_unknown():
            raise CommandError(why_not)
        warn_if_too_few()
        use_few_arenas()
        traces.start_if_wanted()
        supervisor = Supervisor()
        with ExitStack() as stack:
            port = None
            if settings.WORKER_PORT:
                port = stack.enter_context(_opened(settings.WORKER_HOST, settings.WORKER_PORT, supervisor))

            def stop(*_: object) -> None:
                # first signal: finish the round and hand over; second: go
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                leave_within()
                supervisor.stop()

            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
            if port is not None:
                self.stdout.write(f"Probes and figures: {port.url}/healthz, /readyz, /metrics")
            self.stdout.write("Worker started. Ctrl-C stops it and releases its clusters to other workers. Trials "
                              "continue.")
            self.stdout.flush()
            supervisor.prepare()
            leave_alone_what_is_loaded()
            give_back_regularly()
            supervisor.run()
        traces.end()


def _opened(host: str, port: int, supervisor: Supervisor) -> WorkerPort:
    try:
        return WorkerPort(host, port, lambda: supervisor.is_whole)
    except OSError as error:
        raise CommandError(f"Port {port} on {host} cannot be used: {error.strerror}. Choose another port with "
                           "NNIWEB_WORKER_PORT (NNIWEB_WORKER_HOST for the address). Without NNIWEB_WORKER_PORT the "
                           "worker opens no port.") from None
