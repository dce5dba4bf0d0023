"""What stands for an experiment where NNI's tools look for it: a process, an entry in a registry, files.

NNI's tools believe that an experiment is a process: they look for its id, wait for its end, and stop it with SIGTERM.
So each open port has a small process that does nothing. Ending it stops the experiment. When the experiment is stopped,
by whomever, it ends and the registry says STOPPED; when the experiment goes on, there is one again. For an experiment
that has ended before the port was opened it is there too: its results can be looked at.
"""

import logging
import subprocess
import sys
import threading
from typing import Any

from django.utils import timezone

from nniweb.experiments.access.request_actor import asked_by
from nniweb.experiments.actions import intents
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import UNFINISHED_EXPERIMENTS, ExperimentStatus
from nniweb.nniapi.documents import registry_entry
from nniweb.nniapi.nnictl_files import NnictlFiles
from nniweb.nniapi.registry import change_registry

logger = logging.getLogger(__name__)

#: Waits for the end of its input, which comes with the end of the server.
_PROGRAM = "import sys; sys.stdin.read()"


class StandIn:
    """Of one experiment, for the life of its port. Thread-safe."""

    def __init__(self, experiment_id: str, port: int, old_port: int) -> None:
        """``old_port``: the one that answers NNI 1's clients."""
        self._experiment_id = experiment_id
        self._port, self._old_port = port, old_port
        self._guard = threading.Lock()
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        #: The experiment's status at the last look.
        self._seen = ""
        self._is_to_end = False
        self._entry: dict[str, Any] | None = None
        self._files = NnictlFiles(experiment_id)

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None else None

    def begin(self) -> None:
        """The process and its entry, whatever the experiment's status."""
        with self._guard:
            experiment = Experiment.objects.select_related("cluster").get(public_id=self._experiment_id)
            self._begin_process()
            self._seen = experiment.status
            self._show(experiment)

    def end_with_experiment(self) -> None:
        """End the process as soon as the experiment is not stopping any more, also where it had ended before."""
        self._is_to_end = True

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
            self._end_process()
            change_registry(self._experiment_id, None)
            self._files.remove()

    def look(self) -> None:
        """Bring process, experiment, entry and files into line. Raises DatabaseError; the next look makes up for it."""
        with self._guard:
            if not self._is_closed:
                self._look()

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
            self._files.remove()
            return
        is_stopping = experiment.status == ExperimentStatus.STOPPING
        was_stopped = experiment.status == ExperimentStatus.STOPPED != self._seen
        if was_stopped or self._is_to_end and not is_stopping:
            self._end_process()
        if self._process is None and not is_stopping and experiment.status in UNFINISHED_EXPERIMENTS:
            self._begin_process()
        self._seen = experiment.status
        self._show(experiment)

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

    def _show(self, experiment: Experiment) -> None:
        self._files.write(experiment, timezone.now(), old_port=self._old_port, pid=self.pid)
        entry = registry_entry(experiment, self._port, self.pid)
        self._write_entry(entry if self._process is not None else {**entry, "status": "STOPPED"})

    def _write_entry(self, entry: dict[str, Any] | None) -> None:
        if entry != self._entry:
            self._entry = entry
            change_registry(self._experiment_id, entry, self._old_port)
