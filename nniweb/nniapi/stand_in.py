"""The process that stands for an experiment in NNI's registry.

NNI's tools believe that an experiment is a process: they look for its id, wait for its end, and stop it with SIGTERM.
So each port of ``serve --nni-port`` has a small process that does nothing. Ending it stops the experiment. When the
experiment is stopped, by whomever, it ends and the registry says STOPPED; when the experiment goes on, there is one
again. For an experiment that has ended before the port was opened it is there too: its results can be looked at.
"""

import logging
import subprocess
import sys
import threading
from typing import Any

from django.db import connection

from nniweb.experiments.access.request_actor import asked_by
from nniweb.experiments.actions import intents
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS, ExperimentStatus
from nniweb.experiments.sql.idle_connections import give_connection_back
from nniweb.nniapi.documents import registry_entry
from nniweb.nniapi.registry import change_registry
from trainingservice.lasting_thread import LastingThread

logger = logging.getLogger(__name__)

#: Waits for the end of its input, which comes with the end of the server.
_PROGRAM = "import sys; sys.stdin.read()"
#: Seconds between two looks at the process and the experiment's status.
LOOK_SECONDS = 1.0


class StandIn:
    """Of one experiment, for the life of its port. Thread-safe."""

    def __init__(self, experiment_id: str, port: int) -> None:
        self._experiment_id = experiment_id
        self._port = port
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._thread = LastingThread(f"NNI port {port}", self._follow, stopping=self._closing)
        self._process: subprocess.Popen[bytes] | None = None
        #: The experiment's status at the last look.
        self._seen = ""
        self._is_to_end = False
        self._entry: dict[str, Any] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None else None

    def start(self) -> None:
        """Begin, and follow the experiment in a thread until ``close``."""
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """The process and its entry, whatever the experiment's status."""
        with self._guard:
            experiment = Experiment.objects.select_related("cluster").get(public_id=self._experiment_id)
            if self._process is None:  # it is there where a first try went wrong after it
                self._begin_process()
            self._seen = experiment.status
            self._register(experiment)

    def end_with_experiment(self) -> None:
        """End the process as soon as the experiment is not stopping any more, also where it had ended before."""
        self._is_to_end = True

    def close(self) -> None:
        self._closing.set()
        with self._guard:
            self._end_process()
            change_registry(self._experiment_id, None)

    def look(self) -> None:
        """Bring process, experiment and entry into line. Raises DatabaseError; the next look makes up for it."""
        with self._guard:
            if not self._closing.is_set():
                self._look()

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self.look()
                give_connection_back()
            except Exception:
                logger.exception("the process that represents experiment %s cannot be synchronized with it",
                                 self._experiment_id)
                connection.close()
        connection.close()

    def _look(self) -> None:
        experiments = Experiment.objects.select_related("cluster").filter(public_id=self._experiment_id)
        if self._process is not None and self._process.poll() is not None:
            logger.info("experiment %s is stopped: the process of its NNI port was ended", self._experiment_id)
            if (wanted := experiments.first()) is not None:
                with asked_by(f"the process of NNI's port {self._port}, which was ended"):
                    intents.stop(wanted)
            self._end_process()
        experiment = experiments.filter(deleted_at=None).first()
        if experiment is None:
            self._end_process()
            self._write_entry(None)
            return
        is_stopping = experiment.status == ExperimentStatus.STOPPING
        was_stopped = experiment.status == ExperimentStatus.STOPPED != self._seen
        if was_stopped or self._is_to_end and not is_stopping:
            self._end_process()
        if self._process is None and not is_stopping and experiment.status in UNFINISHED_EXPERIMENTS:
            self._begin_process()
        self._seen = experiment.status
        self._register(experiment)

    def _begin_process(self) -> None:
        self._is_to_end = False
        self._process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE,
                                         stdout=subprocess.DEVNULL, start_new_session=True)

    def _end_process(self) -> None:
        self._is_to_end = False
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # its remains too: who waits for it sees them as a process
            self._process = None

    def _register(self, experiment: Experiment) -> None:
        entry = registry_entry(experiment, self._port, self.pid)
        self._write_entry(entry if self._process is not None else {**entry, "status": "STOPPED"})

    def _write_entry(self, entry: dict[str, Any] | None) -> None:
        if entry != self._entry:
            self._entry = entry
            change_registry(self._experiment_id, entry)
