"""The connection to one machine and the agent there: made, dropped, and what is known of the machine through it."""

from __future__ import annotations

import logging
import posixpath
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainingservice.keeper.agent_client import AgentClient, FolderState
from trainingservice.keeper.keeper_bundle import KeeperBundle
from trainingservice.keeper.report_proxy import ReportProxy
from trainingservice.limited_json import storable
from trainingservice.machine_load import MachineLoad
from trainingservice.reasons import Reason
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.remote.first_contact import MachineFacts, look_at, put_keeper, start_agent
from trainingservice.remote.machine_host import MachineHost
from trainingservice.remote.set_aside import SetAside
from trainingservice.ssh.connection import Connection, connect
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.problems import MachineProblem, NotConnected, as_problem
from trainingservice.ssh.reconnect_pauses import RECONNECT, RECONNECT_AFTER_REFUSAL
from trialkeeper.back_off import back_off

logger = logging.getLogger(__name__)

_CONNECTS = Reason("machine_connects", said="The server is connecting to it.")
#: Seconds the agent may take to answer one; after that the connection counts as broken.
ANSWER_TIMEOUT = 20.0
#: Characters of what a machine says that it is; no more can be booked on.
MOST_OF_IDENTITY = 100
#: An agent that lived for less than so many seconds is started again after pauses that grow.
EARLY_DEATH = 10.0


@dataclass(frozen=True)
class Look:
    """What is known of the machine when it is connected."""

    facts: MachineFacts
    identity: str
    cpu_count: int
    has_nvidia_smi: bool
    #: What the agent says of the machine, for ``room_of``.
    about: Mapping[str, Any] = field(default_factory=dict)


class MachineConnection:
    """Base of ``RemoteMachine``. ``_lock`` guards what changes; ``_drop`` is called from several threads."""

    def __init__(self, settings: RemoteMachineSettings, name: str, host: MachineHost, *, keys: HostKeyStore,
                 bundle: Callable[[], KeeperBundle], cluster_folder: str, relay_urls: Callable[[], tuple[str, ...]],
                 clock: Callable[[], float], monotonic: Callable[[], float], chance: Callable[[], float]) -> None:
        self.settings, self.name, self.address = settings, name, settings.address
        self._host, self._keys, self._bundle, self._cluster = host, keys, bundle, cluster_folder
        self._clock, self._monotonic, self._chance = clock, monotonic, chance
        self._relay_urls = relay_urls
        self._lock = threading.Condition()
        self._connection: Connection | None = None
        self._client: AgentClient | None = None
        self._desk: ReportProxy | None = None
        self._look: Look | None = None
        self._problem: MachineProblem | None = MachineProblem(_CONNECTS)
        self._refusals = 0  # in a row: connections that could not be made, or agents that could not be started
        self._early_deaths = 0
        self._connected_at = float("-inf")
        self._next_try = 0.0
        self._closed = False
        self.answered_at = monotonic()  #: monotonic time when it was heard of last, by whatever way
        self._set_aside = SetAside(monotonic)
        self._note = ""

    # --- for RemoteMachine -----------------------------------------------------------------

    def _is_up(self, look: Look) -> None:
        """The agent has been started. Called before anybody sees it; the lock is not held."""
        raise NotImplementedError

    def _hear(self, folder: str, state: FolderState) -> None:
        """The agent tells by itself what a trial does, in the thread that reads what it says."""
        raise NotImplementedError

    # --- what is known -----------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    @property
    def look(self) -> Look | None:
        """Of the present or the last connection."""
        return self._look

    @property
    def identity(self) -> str:
        look = self._look
        return "" if look is None else look.identity

    @property
    def mark(self) -> str:
        """What the cluster's folder there was marked with when it was made; "" where that is not known."""
        look = self._look
        return "" if look is None else look.facts.mark

    @property
    def failures(self) -> int:
        """Submissions in a row that failed there."""
        return self._set_aside.failures

    @property
    def agent_state(self) -> str:
        return "running" if self._client is not None else "not running"

    @property
    def load(self) -> MachineLoad | None:
        """How busy it is; None while it is not connected, and where it does not tell."""
        client = self._client
        return None if client is None else client.load

    def problem(self) -> str:
        """Why nothing can be started there now, a sentence; "" where it can."""
        if self._client is None:
            problem = self._problem
            return _CONNECTS if problem is None else problem.reason
        return self._set_aside.problem()

    def message(self) -> str:
        """What a person should know about it; "" where there is nothing."""
        return self.problem() or self._note

    def client(self) -> AgentClient:
        """The agent, for a caller that may wait for it. Raises NotConnected."""
        client = self._client
        if client is None:
            raise NotConnected(f"Machine {self.name} cannot be used now: {self.problem()}")
        return client

    def connection(self) -> tuple[Connection, MachineFacts]:
        """The connection, for a caller that may wait for it. Raises NotConnected."""
        connection, look = self._connection, self._look
        if connection is None or look is None:
            raise NotConnected(f"Machine {self.name} cannot be used now: {self.problem()}")
        return connection, look.facts

    def path(self, facts: MachineFacts, *names: str) -> str:
        """A path in the cluster's folder on the machine."""
        return posixpath.join(facts.folder, self._cluster, *names)

    def url_of(self, folder: str) -> str:
        """Address of a folder in the cluster's folder; "" while nobody knows where that is."""
        look = self._look
        return "" if look is None else f"ssh://{self.address}{self.path(look.facts, folder)}"

    # --- connecting --------------------------------------------------------------------------

    def _connect(self) -> None:
        try:
            connection = self._connection
            if connection is None or not connection.is_alive:
                connection = connect(self.settings, self._keys)
                with self._lock:
                    self._connection = connection
                    self._note = connection.note
            self._start_agent(connection)
        except Exception as error:  # whatever it is, the machine is left in peace for a while
            self._refuse(as_problem(error, self.name))
        else:
            self._refusals = 0
            logger.info("machine %s is connected", self.address)
            self._host.machine_changed(self.address)

    def _start_agent(self, connection: Connection) -> None:
        bundle = self._bundle()
        facts = look_at(connection, self.settings, bundle, self._clock, marked=self._cluster)
        if facts.error:
            raise MachineProblem(f"The folder {facts.folder} cannot be written on {self.name} ({facts.error}). Free "
                                 "disk space, correct the permissions, or choose another "
                                 "workingFolder.", "folder", needs_person=True)
        keeper = put_keeper(connection, facts, bundle)
        desk = ReportProxy(self._relay_urls, monotonic=self._monotonic)
        client = start_agent(connection, facts, keeper, on_event=self._hear, on_relay=desk.hear,
                             on_closed=self._lost)
        desk.serve(client)
        try:
            client.relay(self._relay_file(facts), ANSWER_TIMEOUT)
            about = client.machine(timeout=ANSWER_TIMEOUT)
            look = Look(facts, storable(str(about["machine_id"]))[:MOST_OF_IDENTITY], int(about.get("cpu_count") or 1),
                        bool(about.get("nvidia_smi")), about)
        except Exception:
            client.close()
            desk.close()
            raise
        self._is_up(look)
        with self._lock:
            self._look = look
            self._client, self._desk, self._problem = client, desk, None
            self.answered_at = self._connected_at = self._monotonic()
            self._lock.notify_all()
        if self._closed:
            self._drop(MachineProblem("The service was closed."))

    def _relay_file(self, facts: MachineFacts) -> str:
        # the working folder may be shared by several machines (NFS), an agent's socket is not
        return self.path(facts, "relays", self.address.replace("/", "_"), "relay.json")

    def _refuse(self, problem: MachineProblem) -> None:
        pause = self._pause_after(self._refusals, RECONNECT_AFTER_REFUSAL if problem.needs_person else RECONNECT)
        with self._lock:
            is_news = str(self._problem) != str(problem)
            self._refusals += 1
            self._next_try = self._monotonic() + pause
            self._problem = problem
            if self._connection is not None and not self._connection.is_alive:
                self._connection.close()
                self._connection = None
        logger.log(logging.WARNING if is_news else logging.DEBUG, "machine %s: %s Next try in %.1f s.", self.address,
                   problem, pause)
        self._host.machine_changed(self.address)

    def _pause_after(self, failures: int, limits: tuple[float, float]) -> float:
        return back_off(failures, limits, self._chance())

    def _lost(self) -> None:
        """In the reading thread: an agent's output has ended, mostly that of the present one."""
        client = self._client
        if client is not None and client.closed:
            connection = self._connection
            broken = connection is None or not connection.is_alive
            self._drop(MachineProblem("The connection broke. The server connects again." if broken else
                                      "The machine's agent has ended and is started "
                                      "again."), keep_connection=not broken)

    def _drop(self, problem: MachineProblem, keep_connection: bool = False) -> None:
        with self._lock:
            client, desk, connection = self._client, self._desk, self._connection
            self._client = self._desk = None
            if not keep_connection:
                self._connection = None
            self._problem = problem
            if client is not None:
                lived = self._monotonic() - self._connected_at
                self._early_deaths = self._early_deaths + 1 if lived < EARLY_DEATH else 0
                self._next_try = self._monotonic() + self._pause_after(self._early_deaths, RECONNECT)
            self._lock.notify_all()
        if desk is not None:
            desk.close()
        if client is not None:
            client.close()
        if connection is not None and not keep_connection:
            connection.close()

    def _drop_if(self, client: AgentClient, problem: MachineProblem) -> None:
        if self._client is client:
            self._drop(problem)

    def _ask_gpus(self) -> tuple[list[dict[str, Any]], str]:
        look = self._look
        if look is not None and not look.has_nvidia_smi:
            return [], "there is no nvidia-smi, amd-smi or rocm-smi on the PATH"
        return self.client().gpus()
