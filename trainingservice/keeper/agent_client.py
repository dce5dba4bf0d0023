"""The service's side of the talk with a machine's agent: JSON lines over two byte streams.

The streams are a pipe to a child process (local) or a channel of an SSH connection (remote); the
client does not know which. The verbs and shapes stand in ``trialkeeper/agent.py``.

*Threads*: one of the client's own reads; requests may come from any number of threads, and many may
be open at once. ``on_event`` and ``on_closed`` are called in the reading thread and must not block.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, Protocol, TypedDict

from trainingservice.errors import TemporaryError
from trainingservice.gpus.told_gpus import read_gpus
from trainingservice.lasting_thread import in_short
from trainingservice.limited_json import storable
from trainingservice.machine_load import MachineLoad
from trainingservice.rest.told_json import read_json
from trainingservice.secrets_in_use import ServiceThread
from trainingservice.trial_job import KeeperAccess
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Version of the talk this client speaks.
AGENT_VERSION = 1
#: Bytes of the longest line that is read: the states of some ten thousand trials. What is longer is no agent's.
MOST_OF_LINE = 64 * 1024 * 1024
#: Characters of a sentence that an agent tells.
MOST_OF_SENTENCE = 10_000


class ByteReader(Protocol):
    """What the client reads from."""

    def readline(self, most: int, /) -> bytes:
        """A line with its end, or so many bytes of a longer one; b"" at the end of the stream. Blocks."""


class ByteWriter(Protocol):
    """What the client writes to."""

    def write(self, data: bytes, /) -> Any:
        """Take all of ``data``; may block."""

    def flush(self) -> Any:
        """Send what was taken."""

    def close(self) -> Any:
        """End of the stream: the agent ends."""


class ExitDocument(TypedDict, total=False):
    """Content of the attempt's EXIT_FILE: how the trial ended."""

    exit_code: int | None
    signal: int | None
    reason: str
    message: str
    duration: float
    at: float
    last_lines: str  #: of a rank of several: what it wrote last


class FolderState(TypedDict, total=False):
    """What the agent knows of one attempt's folder."""

    state: str  #: "absent", "starting", "running", "ended", "canceled"
    exit: ExitDocument | None
    keeper_pid: int | None
    pid: int | None
    working_directory: str
    delivered: bool
    waits_for: str  #: with "starting": why the attempt does not begin yet, a sentence; "" where nothing is amiss
    node: contract.NodeDocument  #: of a trial with several nodes: which of them this is
    way_home: str  #: by which way its keeper was answered last: "direct", "relay", "files", "" before


class AgentError(TemporaryError):
    """The agent answered that it could not do it; the text is its sentence."""


class AgentGone(TemporaryError):
    """The agent does not answer: it has ended, its connection is broken, or it hangs. Keepers go on without it."""


class AgentClient:
    """One connection to one agent. Ends with it; a new agent gets a new client."""

    def __init__(self, reader: ByteReader, writer: ByteWriter, *,
                 on_event: Callable[[str, FolderState], None] | None = None,
                 on_closed: Callable[[], None] | None = None,
                 on_relay: Callable[[dict[str, Any]], None] | None = None, name: str = "agent") -> None:
        """``on_event`` hears each state event (folder, state), ``on_relay`` each relay event (as the agent sent it);
        ``on_closed`` is called once, when the agent is gone.
        """
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._on_closed = on_closed
        self._on_relay = on_relay
        self._name = name
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._next_id = 1
        self._open: dict[int, Future[dict[str, Any]]] = {}
        self._closed = False
        self._hello: Future[dict[str, Any]] = Future()
        self._load: MachineLoad | None = None
        self._thread = ServiceThread(target=self._read, name=f"{name}-reader", daemon=True)
        try:
            self._thread.start()
        except (RuntimeError, MemoryError) as error:
            self.close()  # the agent ends with its input
            raise TemporaryError(f"the agent {name} cannot be read: {in_short(error)}") from error

    # --- life ------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """The agent is gone, or ``close`` was called."""
        return self._closed

    @property
    def load(self) -> MachineLoad | None:
        """How busy the machine was when the agent told it last; None before, and when the agent is gone."""
        return None if self._closed else self._load

    def hello(self, timeout: float = 20.0) -> dict[str, Any]:
        """The agent's first line: version, pid, python, machine_id, host, home. Raises AgentGone."""
        try:
            return self._hello.result(timeout)
        except FutureTimeout:
            raise AgentGone(f"the agent {self._name} did not say hello within {timeout:g} s") from None

    def close(self) -> None:
        """End the agent by the end of its input; requests under way raise AgentGone. Keepers go on. May be repeated."""
        self._fail_open_requests("the connection was closed on this side")
        try:
            self._writer.close()
        except OSError:
            logger.debug("the agent %s was gone before it was closed", self._name)

    def join(self, timeout: float) -> bool:
        """Wait until the reading thread has seen the agent's end. Whether it has."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- verbs -----------------------------------------------------------------------------

    def start(self, folder: str, job: contract.JobDocument, access: KeeperAccess, timeout: float = 30.0) -> FolderState:
        """Start a keeper for the attempt in ``folder``. Idempotent; never starts what was canceled."""
        return self._state(self.request("start", timeout, folder=folder, job=job, access=access_document(access)))

    def state(self, folders: Sequence[str], timeout: float = 30.0,
              accepted: Mapping[str, int] | None = None) -> dict[str, FolderState]:
        """The states of the folders; from then on their changes come as events.

        ``accepted``: folder -> the highest journal entry the server has. What an ended attempt delivered beyond that
        is sent again.
        """
        more = {"accepted": dict(accepted)} if accepted else {}
        states: dict[str, FolderState] = self.request("state", timeout, folders=list(folders), **more)["states"]
        return states

    def stop(self, folder: str, timeout: float = 30.0) -> FolderState:
        """Leave a tombstone and tell the keeper, if there is one, to stop its trial."""
        return self._state(self.request("stop", timeout, folder=folder))

    def deliver(self, folder: str, orders: Sequence[contract.Order], timeout: float = 30.0) -> None:
        """Put orders into the folder and wake its keeper."""
        self.request("deliver", timeout, folder=folder, orders=list(orders))

    def remove(self, folder: str, timeout: float = 60.0, *, undelivered: bool = False) -> None:
        """Remove an attempt's folder. Raises AgentError while its keeper lives.

        ``undelivered``: what it has not delivered is not wanted any more. Its keeper is ended if its
        trial has ended; this still raises AgentError the first time, and succeeds a moment later.
        """
        self.request("remove", timeout, folder=folder, undelivered=undelivered)

    def gpus(self, timeout: float = 30.0) -> tuple[list[dict[str, Any]], str]:
        """The GPUs of the machine and, where there are none, the reason as a sentence."""
        reply = self.request("gpus", timeout)
        return read_gpus(reply.get("gpus")), _sentence(reply.get("error"))

    def image(self, image: str, engine: str, pull: str, timeout: float) -> contract.ImageDocument:
        """Have an image on the machine, and say whether it is there; takes as long as its pull."""
        reply = self.request("image", timeout, image=image, engine=engine, pull=pull)
        problem = str(reply.get("problem") or "")
        return {"engine": str(reply.get("engine") or ""), "program": str(reply.get("program") or ""),
                "rootless": reply.get("rootless") is True, "detail": str(reply.get("detail") or ""),
                "problem": problem if problem in ("", *contract.IMAGE_PROBLEMS) else contract.ENGINE_UNUSABLE}

    def machine(self, paths: Sequence[str] = (), timeout: float = 30.0) -> dict[str, Any]:
        """What the machine is: machine_id, host, python, cpu_count, memory_total, bash, nvidia_smi, disk_free,
        no_control_groups (a sentence, or "").
        """
        return self.request("machine", timeout, paths=list(paths))

    def relay(self, file: str, timeout: float = 30.0) -> None:
        """Have the agent take requests of keepers, on a socket that ``file`` (on its machine) names."""
        self.request("relay", timeout, file=file)

    def answer(self, relay: int, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """The server's answer to a relayed request. Raises AgentGone."""
        self._send({"id": None, "do": "answer", "relay": relay, "status": status, "headers": dict(headers),
                    "data": base64.b64encode(body).decode("ascii")})

    def request(self, verb: str, timeout: float, **fields: Any) -> dict[str, Any]:
        """One request and its reply. Raises AgentError (its sentence), AgentGone."""
        reply: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._closed:
                raise AgentGone(f"the agent {self._name} has ended")
            number = self._next_id
            self._next_id += 1
            self._open[number] = reply
        try:
            self._send({"id": number, "do": verb, **fields})
            answer = reply.result(timeout)
        except FutureTimeout:
            raise AgentGone(f"the agent {self._name} did not answer {verb!r} within {timeout:g} s") from None
        finally:
            with self._lock:
                self._open.pop(number, None)
        if not answer.get("ok"):
            raise AgentError(_sentence(answer.get("error"))
                             or f"the agent {self._name} refused {verb!r} without a reason")
        return answer

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._write_lock:
                self._writer.write(line)
                self._writer.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            raise AgentGone(f"the agent {self._name} has ended: {error}") from error

    @staticmethod
    def _state(reply: Mapping[str, Any]) -> FolderState:
        state: FolderState = reply["state"]
        return state

    # --- reading ---------------------------------------------------------------------------

    def _read(self) -> None:
        reason = "it closed the connection"
        try:
            while line := self._reader.readline(MOST_OF_LINE):
                if len(line) >= MOST_OF_LINE:
                    raise ValueError(f"it sent a line of more than {MOST_OF_LINE // 1024 ** 2} MB")
                self._handle(line)
        except (OSError, ValueError) as error:
            reason = str(error)
        except BaseException as error:  # whoever waits for an answer must not wait for ever
            logger.exception("the agent %s can no longer be read", self._name)
            reason = f"it can no longer be read ({in_short(error)})"
        self._fail_open_requests(reason)
        with suppress(OSError):
            self._writer.close()  # an agent that nobody hears is to end
        if self._on_closed is not None:
            self._on_closed()

    def _fail_open_requests(self, reason: str) -> None:
        gone = AgentGone(f"the agent {self._name} has ended: {reason}")
        with self._lock:
            self._closed = True
            unanswered = list(self._open.values())
            self._open.clear()
            if not self._hello.done():
                unanswered.append(self._hello)
            for future in unanswered:
                future.set_exception(gone)

    def _handle(self, line: bytes) -> None:
        try:
            message = read_json(line)
            event = message.get("event")
        except (ValueError, AttributeError):
            # a login shell's greeting, a warning of Python: not ours
            logger.warning("the agent %s sent something unreadable: %.200r", self._name, line)
            return
        if event is None:
            with self._lock:
                reply = self._open.pop(message.get("id"), None)
            if reply is not None:
                reply.set_result(message)
        elif event == "hello":
            with self._lock:
                if self._hello.done():
                    return
                if message.get("version") == AGENT_VERSION:
                    self._hello.set_result(message)
                else:
                    self._hello.set_exception(AgentGone(
                        f"the agent {self._name} speaks version {message.get('version')!r} of the talk, "
                        f"not {AGENT_VERSION}"))
        elif event == "load":
            self._load = MachineLoad.from_document(message.get("load"))
        elif event == "state" and self._on_event is not None:
            try:
                self._on_event(message["folder"], message["state"])
            except Exception:
                logger.exception("an event of the agent %s could not be handled", self._name)
        elif event == "relay" and self._on_relay is not None:
            try:
                self._on_relay(message)
            except Exception:
                logger.exception("a request relayed by the agent %s could not be handled", self._name)


def _sentence(told: object) -> str:
    return storable(told[:MOST_OF_SENTENCE]) if isinstance(told, str) else ""


def access_document(access: KeeperAccess) -> dict[str, Any]:
    """How the keeper reaches the server, as the agent is told."""
    return {"urls": list(access.urls), "token": access.token,
            "url_file": None if access.url_file is None else str(access.url_file),
            "ca_file": None if access.ca_file is None else str(access.ca_file),
            "relay_file": access.relay_file}
