"""The ports of this server for NNI's clients: opened and closed while it runs, as experiments and the start say."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError, connection, transaction

from nniweb.experiments.models import Experiment
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.sql.idle_connections import give_connection_back
from nniweb.nniapi.ports import Listen, NniPort
from trainingservice.lasting_thread import LastingThread
from trainingservice.reasons import Reason, as_document

logger = logging.getLogger(__name__)

#: Seconds between two looks at what is wanted, and at each experiment's process and status.
LOOK_SECONDS = 1.0


class OpenPorts:
    """For the life of a server. ``listen`` is called on any thread."""

    def __init__(self, listen: Listen, given: Mapping[str, int], say: Callable[[str], None]) -> None:
        """``given``: experiment -> port, as the start of the server has it; it overrules the database. ``say`` tells
        whoever started the server.
        """
        self._listen, self._given, self._say = listen, given, say
        self._open: dict[str, NniPort] = {}
        #: Experiment -> why its port could not be opened, as its row has it; None where it has nothing.
        self._said: dict[str, dict[str, Any] | None] = {}
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._thread = LastingThread("NNI ports", self._follow, stopping=self._closing)

    def start(self) -> None:
        """Open what is wanted, and follow changes in a thread until ``close``."""
        self.look()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._guard:
            for opened in self._open.values():
                opened.close()
            self._open.clear()

    def look(self) -> None:
        """Bring ports, processes and files into line with what is wanted. Raises DatabaseError."""
        wanted = self._wanted()
        with self._guard:
            if self._closing.is_set():
                return
            for experiment_id, opened in list(self._open.items()):
                if wanted.get(experiment_id) != opened.port:
                    self._open.pop(experiment_id).close()
                    logger.info("port %d for NNI's clients of experiment %s is closed", opened.port, experiment_id)
            for experiment_id, port in wanted.items():
                if experiment_id not in self._open:
                    self._try_to_open(experiment_id, port)
            for experiment_id, opened in self._open.items():
                try:
                    opened.stand_in.look()
                except DatabaseError:
                    raise
                except Exception:
                    logger.exception("the process that represents experiment %s cannot be synchronized with it",
                                     experiment_id)

    def _wanted(self) -> dict[str, int]:
        rows = list(Experiment.objects.filter(deleted_at=None).exclude(nni_port=None).values_list(
            "public_id", "nni_port", "nni_port_problem"))
        in_rows = {experiment_id: problem for experiment_id, _, problem in rows}
        self._said = {**in_rows, **{given: self._said.get(given, in_rows.get(given)) for given in self._given}}
        return {**{experiment_id: port for experiment_id, port, _ in rows if port is not None}, **self._given}

    def _try_to_open(self, experiment_id: str, port: int) -> None:
        try:
            opened = NniPort(experiment_id, port, self._listen)
        except OSError as error:
            if self._say_in_row(experiment_id, port, Reason("nni_port_not_open", port=port, error=str(error))):
                logger.warning("port %d for NNI's clients of experiment %s cannot be opened: %s", port, experiment_id,
                               error)
            return
        try:
            opened.stand_in.begin()
        except BaseException:
            opened.close()
            raise
        self._open[experiment_id] = opened
        self._say_in_row(experiment_id, port, "")
        self._say(f"NNI's clients find experiment {experiment_id} at port {port} of this machine, without a token. "
                  "Every local user can control this experiment.")

    def _say_in_row(self, experiment_id: str, port: int, problem: str) -> bool:
        """Write why the port is not open, "" where it is. False where that is said already."""
        said = as_document(problem) if problem else None
        if self._said.get(experiment_id) == said:
            return False
        self._said[experiment_id] = said
        with transaction.atomic():
            mine = Experiment.objects.filter(public_id=experiment_id, nni_port=port)
            pk = mine.values_list("pk", flat=True).first()
            if pk is not None and mine.update(nni_port_problem=said):
                next_revision(pk, needs_round=False)
        return True

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self.look()
                give_connection_back()
            except DatabaseError as error:
                logger.warning("the ports for NNI's clients are not looked after: %s", error)
                connection.close()
        connection.close()
