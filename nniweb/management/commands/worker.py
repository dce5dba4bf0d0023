"""``manage.py worker``: a worker process of its own, beside web servers that run elsewhere."""

import signal
from typing import Any

from django.core.management.base import BaseCommand

from nniweb.worker.supervisor import Supervisor


class Command(BaseCommand):
    help = "Drive clusters: start trials, watch them, ask tuners. Several workers share the clusters by leases."

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor = Supervisor()

        def stop(*_: object) -> None:
            # first signal: finish the round and hand over; second: go
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            supervisor.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        self.stdout.write("Worker started; Ctrl-C hands its clusters over. Trials go on.")
        self.stdout.flush()
        supervisor.run()
