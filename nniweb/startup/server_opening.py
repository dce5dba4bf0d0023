"""How ``serve`` comes up: each step is tried again until it is done. Meanwhile it listens and says what it waits for.

A database that is locked, a disk that is full, a PostgreSQL that is away: that passes, and then the server opens by
itself. What does not pass (a database of a newer version, a defect) ends the process with a sentence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from nniweb.database.outage_logs import is_database_away
from nniweb.experiments.sql.schema_version import is_of_this_version
from nniweb.middleware.gate import Gate
from nniweb.process.garbage import loading
from nniweb.storage.data_folder import ServerLock
from nniweb.storage.own_files import COMMAND
from trainingservice.lasting_thread import LastingThread
from trialkeeper.shortage import is_shortage

if TYPE_CHECKING:  # when running, loaded after the migration
    from nniweb.keeperapi.application import KeeperApplication
    from nniweb.nniapi.open_ports import OpenPorts
    from nniweb.nniapi.ports import Listen
    from nniweb.worker.supervisor import Supervisor

logger = logging.getLogger(__name__)

#: Seconds between two tries, for each in a row.
PAUSES = (0.5, 1.0, 2.0, 5.0)
#: Seconds that the worker is given at the end for its rounds and leases.
WORKER_ENDS_WITHIN = 20.0


class Opening:
    """Begins with ``start``, once the server listens; ``close`` when it listens no more. Both on one thread.

    ``failure`` is why the server cannot be opened at all, "" as long as it may be.
    """

    def __init__(self, lock: ServerLock, gate: Gate, url: str, nni_ports: Mapping[str, int], listen: Listen,
                 say: Callable[[str], None], give_up: Callable[[], None]) -> None:
        """``nni_ports``: public id of an experiment -> the port for its clients of NNI's; ``listen`` opens one.
        ``give_up`` is called, on another thread, where there is a ``failure``; ``say`` tells whoever started the
        server."""
        self._lock, self._gate, self._url = lock, gate, url
        self._wanted, self._listen = nni_ports, listen
        self._say, self._give_up = say, give_up
        self.failure = ""
        self._stopping = threading.Event()
        self._thread = LastingThread("start", self._open, stopping=self._stopping, is_vital=True, pauses=PAUSES)
        self._worker = LastingThread("worker", self._work, stopping=self._stopping, is_vital=True)
        self._supervisor: Supervisor | None = None
        self._keeper_application: KeeperApplication | None = None
        self._nni_ports: OpenPorts | None = None
        self._has_told = False

    def start(self) -> None:
        """Raises RuntimeError or MemoryError where the machine has no thread to spare."""
        self._thread.part.is_in_trouble("The server is being started.")
        self._thread.start()

    def close(self) -> None:
        """End what was begun. Trials go on."""
        self._stopping.set()
        if self._nni_ports is not None:
            self._nni_ports.close()
        if self._supervisor is not None:
            self._supervisor.stop()
        self._worker.join(WORKER_ENDS_WITHIN)
        if self._keeper_application is not None:
            self._keeper_application.group_commit.close()

    # --- the thread that opens -------------------------------------------------------------

    def _open(self) -> None:
        try:
            for step in (self._bring_up_to_date, self._check_nni_ports, self._prepare_worker, self._open_gate,
                         self._worker.start, self._tell, self._open_nni_ports, self._launch_demo):
                if self._stopping.is_set():
                    return
                step()
        except (CommandError, SystemExit) as error:
            self._fail(str(error))
        except Exception as error:
            if is_database_away(error) or isinstance(error, OSError) or is_shortage(error):
                raise  # it passes, or somebody makes room: the thread begins again
            logger.exception("the server cannot be started")
            self._fail(f"The server cannot be started: {type(error).__name__}: {error}. This is a defect. Please "
                       "report it with the log lines above.")
        finally:
            connection.close()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._give_up()

    def _bring_up_to_date(self) -> None:
        if is_of_this_version():
            return
        from nniweb.upgrades.bringing_up_to_date import CannotUpgrade, bring_up_to_date

        try:
            bring_up_to_date(self._say, is_server=True)
        except CannotUpgrade as error:
            raise CommandError(str(error)) from error

    def _check_nni_ports(self) -> None:
        from nniweb.experiments.models import Experiment

        for name, port in self._wanted.items():
            if not Experiment.objects.filter(public_id=name, deleted_at=None).exists():
                raise CommandError(f"--nni-port {name}={port}: there is no experiment {name}. {COMMAND} experiments "
                                   "list shows all experiments.")

    def _open_nni_ports(self) -> None:
        from nniweb.nniapi.open_ports import OpenPorts

        if self._nni_ports is None:
            self._nni_ports = OpenPorts(self._listen, self._wanted, self._say)
        self._nni_ports.start()

    def _prepare_worker(self) -> None:
        with loading():
            from nniweb.worker.supervisor import Supervisor

        if self._supervisor is None:
            self._supervisor = Supervisor()
            self._supervisor.prepare()  # it loads while this process still does

    def _open_gate(self) -> None:
        with loading():
            from nniweb.asgi import application, keeper_application
            from nniweb.nniapi.ports import with_nni_ports

        self._keeper_application = keeper_application
        keeper_application.group_commit.start()
        self._gate.open(with_nni_ports(application))

    def _tell(self) -> None:
        from nniweb.startup.first_start import first_user, sign_in_address

        self._lock.write_address([self._url])  # for keepers on this machine
        if self._has_told:
            return
        # people of a server with an address of its own are rarely on its machine
        address = sign_in_address(settings.PUBLIC_URL or self._url, first_user())
        self._say(f"\nNNI Web is running at {self._url}\nSign in with this link (once, within an hour):\n\n    "
                  f"{address}\n\nData folder: {settings.DATA_FOLDER}\nCtrl-C stops the server. Running trials "
                  "continue.\n")
        self._has_told = True

    def _launch_demo(self) -> None:
        from nniweb.startup.first_start import first_user, launch_demo

        experiment = launch_demo(first_user())
        if experiment is not None:
            self._say(f"The demo \"{experiment.name}\" is running. Open the address above to see it.")

    # --- the worker's thread ---------------------------------------------------------------

    def _work(self) -> None:
        from nniweb.worker.supervisor import Supervisor

        supervisor = self._supervisor
        if supervisor is None or supervisor.has_run:  # one that has failed is over
            supervisor = self._supervisor = Supervisor()
        if not self._stopping.is_set():
            supervisor.run()
