"""One machine: its connection, its agent, and what is wanted of it. Two threads, so that no machine waits for another.

The first thread keeps connection and agent alive, carries out stops, and asks about the trials; while SSH
works and the agent does not, it collects their journals. The second brings code and starts trials, which
may take long. Callers only lay down what they want and look at what was seen.

Nothing of this is needed by a trial that runs: all of it may break and come back at any time.
"""

from __future__ import annotations

import logging
import posixpath
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainingservice.errors import MustWait, PermanentError, TemporaryError, TrainingServiceError
from trainingservice.gpus.gpu_watch import GpuWatch
from trainingservice.keeper.agent_client import AgentClient, AgentError, FolderState
from trainingservice.keeper.container_images import ContainerImages
from trainingservice.keeper.keeper_bundle import KeeperBundle
from trainingservice.lasting_thread import LastingThread
from trainingservice.machine_shares.shares import NOTHING, MachineShare, room_of
from trainingservice.nodes.node_names import job_and_rank
from trainingservice.reasons import Reason, because_of
from trainingservice.remote.code_copies import CodeCopies
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.remote.first_contact import MachineFacts, put_file
from trainingservice.remote.journal_collector import JournalCollector
from trainingservice.remote.machine_connection import ANSWER_TIMEOUT, Look, MachineConnection
from trainingservice.remote.machine_host import MachineHost
from trainingservice.ssh.connection import Connection
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.problems import MachineProblem, NotConnected, as_problem
from trainingservice.trial_job import KeeperAccess, TrialJobDetail
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Seconds between two questions about the trials while nothing happens; also the sign of life of an idle connection.
LOOK_EVERY = 10.0
#: Seconds after which a stop that the agent refused is tried again.
REPEAT_STOP = 5.0
#: Seconds after which a start that may have been obeyed is tried again where it could not be sent again.
REPEAT_START = 1.0
#: Seconds between two collections of journals while there is no agent.
COLLECT_EVERY = 2.0
#: Seconds for which a relayed report is shown as the way in use.
WAY_SHOWN = 60.0
#: What an agent may say of the way by which a trial's reports come.
_WAYS = ("direct", "relay", "files")


@dataclass
class _Start:
    job: TrialJobDetail
    folder: str
    document: Callable[[contract.CodeDocument | None], contract.JobDocument]
    #: The request was sent at least once and its answer was not heard: it may have been obeyed.
    is_sent: bool = False


@dataclass
class _Wants:
    starts: dict[str, _Start] = field(default_factory=dict)
    stops: dict[str, str] = field(default_factory=dict)  # job name -> folder relative to the cluster's


class RemoteMachine(MachineConnection):
    """``open`` starts its threads, ``close`` ends them. All other methods return at once, from any thread."""

    def __init__(self, settings: RemoteMachineSettings, name: str, host: MachineHost, *, keys: HostKeyStore,
                 bundle: Callable[[], KeeperBundle], cluster_folder: str, scratch: Path,
                 relay_urls: Callable[[], tuple[str, ...]], held_gpus: Callable[[str], frozenset[int]],
                 gpus_matter: Callable[[], bool], clock: Callable[[], float] = time.time,
                 monotonic: Callable[[], float] = time.monotonic,
                 chance: Callable[[], float] = random.random) -> None:
        """``cluster_folder``: relative to the machine's working folder. ``held_gpus``: booked on a machine identity."""
        super().__init__(settings, name, host, keys=keys, bundle=bundle, cluster_folder=cluster_folder,
                         relay_urls=relay_urls, clock=clock, monotonic=monotonic, chance=chance)
        self._wants = _Wants()
        self._next_collection = 0.0
        self._next_look = self._stops_not_before = 0.0
        self._wanted_look = False
        self.looked_at = float("-inf")  #: monotonic time before which all is seen that the last look showed
        self._ways: dict[str, str] = {}
        self._uncollected: dict[str, str] = {}  # job name -> why its journal could not be collected
        self._collected_at: float | None = None
        self._code = CodeCopies(scratch)
        self._collector = JournalCollector(relay_urls, clock)
        self.gpus = GpuWatch(self._ask_gpus, lambda: held_gpus(self.identity), gpus_matter,
                             lambda: host.machine_changed(self.address), monotonic)
        self.images = ContainerImages(name, "remote", self.client, monotonic,
                                      lambda: host.machine_changed(self.address))
        self._stopping = threading.Event()
        self._threads = [LastingThread(f"machine {name}", self._run, stopping=self._stopping),
                         LastingThread(f"starts on {name}", self._run_starts, stopping=self._stopping)]

    # --- what is known ---------------------------------------------------------------------

    def way_home(self) -> str:
        """How reports come in: "direct", "relay" (through the agent), "files" (over SFTP); "" while unknown."""
        now = self._monotonic()
        desk = self._desk
        if self._collected_at is not None and now - self._collected_at < WAY_SHOWN and self._client is None:
            return "files"
        if desk is not None and desk.answered_at is not None and now - desk.answered_at < WAY_SHOWN:
            return "relay"
        ways = list(self._ways.values())
        return ways[-1] if ways else ""

    # --- what is wanted --------------------------------------------------------------------

    def start(self, job: TrialJobDetail, folder: str,
              document: Callable[[contract.CodeDocument | None], contract.JobDocument]) -> None:
        """Have a trial started in ``folder`` (relative to the cluster's). The host is told how it went."""
        with self._lock:
            self._wants.starts.setdefault(job.id, _Start(job, folder, document))
            self._lock.notify_all()

    def stop(self, job_name: str, folder: str) -> None:
        """Have a trial ended, or a tombstone laid where there is none; kept in mind until it is done."""
        with self._lock:
            start = self._wants.starts.get(job_name)
            if start is not None and not start.is_sent:
                del self._wants.starts[job_name]
            self._wants.stops[job_name] = folder
            self._lock.notify_all()

    def is_starting(self, job_name: str) -> bool:
        return job_name in self._wants.starts

    def look_soon(self) -> None:
        """Ask about the trials now; ``wait_for_look`` tells when it was done."""
        with self._lock:
            self._wanted_look = True
            self._lock.notify_all()

    def wait_for_look(self, since: float, deadline: float) -> bool:
        """Wait until a look that began after ``since`` is done; False at the deadline or when it is not connected."""
        with self._lock:
            while self.looked_at < since:
                left = deadline - self._monotonic()
                if left <= 0 or self._client is None or self._closed:
                    return False
                self._lock.wait(min(left, 0.5))
        return True

    def forget(self, job_names: list[str]) -> None:
        """These trials are gone: nothing is wanted of them any more."""
        with self._lock:
            for name in job_names:
                self._wants.starts.pop(name, None)
                self._wants.stops.pop(name, None)
                self._ways.pop(name, None)
                self._uncollected.pop(name, None)

    def open(self) -> None:
        """Begin. Harmless when repeated."""
        for thread in self._threads:
            if not self._closed:
                thread.start()

    def close(self) -> None:
        """End connection, agent and threads. Trials go on."""
        self._stopping.set()
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self.gpus.stop()
        self._drop(MachineProblem("The service was closed."))
        for thread in self._threads:
            thread.join(5.0)
        self._drop(MachineProblem("The service was closed."))  # what was just being connected
        self.gpus.join(5.0)

    # --- the first thread ------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._round()
            except Exception as error:
                self._drop(as_problem(error, self.name))
            with self._lock:
                if not self._closed and not self._is_due():
                    self._lock.wait(self._pause())

    def _is_due(self) -> bool:
        return self._client is not None and (
            self._wanted_look or (bool(self._wants.stops) and self._monotonic() >= self._stops_not_before))

    def _pause(self) -> float:
        due = self._next_look if self._client is not None else self._next_try
        if self._wants.stops and self._client is not None:
            due = min(due, self._stops_not_before)
        if self._client is None and self._connection is not None:
            due = min(due, self._next_collection)
        return max(0.02, min(60.0, due - self._monotonic()))

    def _round(self) -> None:
        if self._client is None:
            if self._monotonic() >= self._next_try:
                self._connect()
            if self._client is None and self._connection is not None and self._monotonic() >= self._next_collection:
                self._next_collection = self._monotonic() + COLLECT_EVERY
                self._collect()
            return
        self._carry_out_stops(self._client)
        if self._wanted_look or self._monotonic() >= self._next_look:
            self._ask(self._client)

    def _carry_out_stops(self, client: AgentClient) -> None:
        if self._monotonic() < self._stops_not_before:
            return
        facts = self.connection()[1]
        for job_name, folder in list(self._wants.stops.items()):
            asked_at = self._monotonic()
            try:
                state = client.stop(self.path(facts, folder), ANSWER_TIMEOUT)
            except AgentError as error:
                logger.warning("trial %s cannot be stopped on %s yet: %s", job_name, self.address, error)
                self._stops_not_before = self._monotonic() + REPEAT_STOP
                continue
            with self._lock:
                self._wants.stops.pop(job_name, None)
            self._host.machine_saw(self.address, job_name, state, asked_at)

    def _ask(self, client: AgentClient) -> None:
        begin = self._monotonic()
        self._wanted_look = False
        facts = self.connection()[1]
        names = {self.path(facts, folder): name for name, folder in self._host.folders_on(self.address).items()}
        known = self._host.accepted_when_resumed(names.values())
        accepted = {folder: known[name] for folder, name in names.items() if name in known}
        states = client.state(list(names), ANSWER_TIMEOUT, accepted)
        self.answered_at = self._monotonic()
        for folder, state in states.items():
            if folder in accepted and state["state"] != "absent":
                self._host.seen_again(names[folder])
            self._saw(names[folder], state, begin)
        with self._lock:
            self.looked_at = begin
            self._next_look = self._monotonic() + LOOK_EVERY
            self._lock.notify_all()

    def _is_up(self, look: Look) -> None:
        self._next_look = self._stops_not_before = 0.0
        if look.has_nvidia_smi and not self._closed:
            self.gpus.start()

    def _hear(self, folder: str, state: FolderState) -> None:
        self.answered_at = self._monotonic()
        self._saw(posixpath.basename(folder), state, self.answered_at)

    def _saw(self, job_name: str, state: FolderState, asked_at: float) -> None:
        if (way := state.get("way_home")) in _WAYS:
            self._ways.pop(job_name, None)  # the newest word is the last one
            self._ways[job_name] = way
            while len(self._ways) > 100:
                self._ways.pop(next(iter(self._ways)))
        self._host.machine_saw(self.address, job_name, state, asked_at)

    def _collect(self) -> None:
        """There is no agent, but SSH works: read what keepers have to say from their folders."""
        look = self._look
        connection = self._connection
        if look is None or connection is None:
            return
        for job_name, folder in self._host.folders_on(self.address).items():
            path = self.path(look.facts, folder)
            asked_at = self._monotonic()
            try:
                # of a trial with several nodes the journal of rank 0 is the trial's
                state = self._collector.collect(connection, path, job_name, look.facts.clock_ahead,
                                                delivers=job_and_rank(job_name)[1] == 0)
            except MachineProblem:
                raise  # the connection is gone, for all of them
            except Exception as error:  # one trial's files must not keep those of the others from being collected
                with self._lock:
                    is_news = self._uncollected.get(job_name) != str(error)
                    self._uncollected[job_name] = str(error)
                logger.log(logging.WARNING if is_news else logging.DEBUG,
                           "the files of trial %s on %s cannot be collected yet: %s", job_name, self.address, error)
                continue
            with self._lock:
                self._uncollected.pop(job_name, None)
            if state["state"] not in ("absent", "starting"):  # that only an agent can be sure of
                self._host.machine_saw(self.address, job_name, state, asked_at)
        self._collected_at = self.answered_at = self._monotonic()

    # --- the second thread -----------------------------------------------------------------

    def _run_starts(self) -> None:
        while not self._closed:
            with self._lock:
                start = next(iter(self._wants.starts.values()), None)
                if not self._closed and (start is None or (self._client is None and start.is_sent)):
                    self._lock.wait(1.0)
                    continue
            if start is None:
                return
            try:
                self._start(start)
            except Exception as error:
                logger.exception("machine %s: a start failed", self.address)
                self._return(start, TemporaryError(f"the start failed: {type(error).__name__}: {error}"))

    def _start(self, start: _Start) -> None:
        job = start.job
        client: AgentClient | None = None
        try:
            client = self.client()
            connection, facts = self.connection()
            code = job.form.code
            document = start.document(None if code is None else self._code.ensure(
                connection, self.path(facts, "code"), code, lambda text: self._host.machine_says(job.id, text)))
            access = self._access(job.form.keeper, connection, facts)
        except PermanentError as error:
            self._return(start, error)
            return
        except TemporaryError as error:
            if client is not None and isinstance(error, MachineProblem) and error.check == "connection":
                self._drop_if(client, error)  # a break that is counted once: the next trial finds a new connection
            if start.is_sent:
                with self._lock:
                    self._lock.wait(REPEAT_START)
                return
            if not isinstance(error, NotConnected | MustWait):
                self._count_failure(error)
            self._return(start, error)
            return
        with self._lock:
            if job.id not in self._wants.starts:  # canceled meanwhile
                return
            start.is_sent = True
        asked_at = self._monotonic()
        try:
            state = client.start(self.path(facts, start.folder), document, access, ANSWER_TIMEOUT)
        except AgentError as error:  # refused for sure
            self._count_failure(error)
            self._return(start, error)
        except TemporaryError as error:
            # it may have been obeyed: the same machine is asked again when it is back
            self._host.machine_says(job.id, Reason("machine_unreachable", platform="remote", said=(
                f"The connection to machine {self.name} was lost while the trial was started there. The server looks "
                f"for the trial when the machine can be reached again. {error}"), **because_of(error.reason)))
            self._drop_if(client, MachineProblem(error.reason))
        else:
            self._set_aside.worked()
            self._saw(job.id, state, asked_at)  # before it stops being one that is starting: nobody may miss it between
            with self._lock:
                self._wants.starts.pop(job.id, None)

    def _access(self, access: KeeperAccess, connection: Connection, facts: MachineFacts) -> KeeperAccess:
        """The keeper's access as it is on the machine: addresses, the authority's file, the agent's socket."""
        ca_file = None
        if access.ca_file is not None:
            ca_file = Path(self.path(facts, "ca.pem"))
            put_file(connection, str(ca_file), access.ca_file.read_bytes())
        return replace(access, url_file=None, ca_file=ca_file, relay_file=self._relay_file(facts))

    def _return(self, start: _Start, error: TrainingServiceError) -> None:
        with self._lock:
            self._wants.starts.pop(start.job.id, None)
        self._host.machine_gives_back(self.address, start.job.id, error)

    def _count_failure(self, error: TemporaryError) -> None:
        if self._set_aside.failed(error):
            logger.warning("machine %s: %s", self.address, self.problem())

    def clean_code(self, wanted: frozenset[str]) -> None:
        """Remove code archives that no known trial needs. Raises TemporaryError."""
        connection, facts = self.connection()
        self._code.clean(connection, self.path(facts, "code"), wanted)



def room_on(machine: RemoteMachine) -> MachineShare:
    """What trials may have together there beside GPUs."""
    look, settings = machine.look, machine.settings
    return NOTHING if look is None else room_of(look.about, settings.cpu_number, settings.memory_size)
