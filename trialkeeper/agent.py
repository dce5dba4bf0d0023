"""The machine's agent: starts keepers by forking (they are warm at once) and answers for all attempts.

Where a keeper is killed, its trial's processes become children of the agent (Linux), whatever they did to hide. The
keeper that finishes the attempt is told of them; what is left of them after its grace period is killed.

JSON lines on stdin and stdout; the verbs are the methods ``_do_...`` below, each says its request and its answer.
Unasked it sends ``{"event": "hello", ...}`` first and ``{"event": "state", "folder", "state"}`` whenever an attempt
that it started, or was asked about, starts its trial, ends, or was delivered. Where the machine tells how busy it is,
``{"event": "load", "load": {...}}`` follows every LOAD_EVERY seconds (``machine_load.py``).

EOF on stdin or SIGTERM ends the agent and nothing else: keepers live in sessions of their own and hold none of its
pipes. One thread only, so that forking is safe; what may take long (nvidia-smi, removing a tree, a hanging disk) is
done in a forked child, whose answer is passed on.
"""

import base64
import contextlib
import gc
import json
import os
import random
import selectors
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from trialkeeper import contract, machine, smi_program
from trialkeeper.access import access_from_document, save_access, saved_access
from trialkeeper.attempt_folder import (
    CANCELED,
    ENDED_STATE,
    FolderState,
    folder_state,
    job_name_of,
    keeper_pid,
    make_private_folder,
    needs_finishing,
    read_accepted,
    read_object,
    read_text,
    summary_of,
    waits_for_room,
    wake,
    write_file,
)
from trialkeeper.container_engine import prepare_image
from trialkeeper.container_trial import remove_left_container
from trialkeeper.control_group import folder_of_trials, own_folder, recorded_group, remove_leftovers, why_not
from trialkeeper.gpu_usage import gpu_program, read_gpus
from trialkeeper.keeper import DEFAULT_GRACE, Keeper
from trialkeeper.machine_load import MachineLoad
from trialkeeper.machine_share import memory_for_trials, usable_cpus, usable_memory
from trialkeeper.nni_for_trials import unpack_for_trials
from trialkeeper.process_tree import become_reaper_of_orphans, is_of_a_trial
from trialkeeper.relay import Relay
from trialkeeper.trials_group import prepare_trials_group
from trialkeeper.warm_parents import WarmParents

AGENT_VERSION = 1
#: Seconds between two looks at attempts whose keepers are not children of this agent.
LOOK_EVERY = 1.0
#: Seconds between two events that tell how busy the machine is.
LOAD_EVERY = 10.0
#: Seconds for which the word of a keeper waits for others: a short trial starts, ends and is delivered in one event.
#: Whoever has to know sooner hears it by the keeper's report.
GATHER = 0.05
#: Seconds beyond the grace period that a keeper gets to end what its predecessor left.
FINISHING = 2.0
#: Keepers forked for one folder by one agent to finish its attempt; more would mean that they fail.
MOST_FINISHERS = 3
#: Seconds, at most, after which a keeper is forked for an attempt whose keeper gave way for want of room.
AGAIN_AFTER = 10.0
#: Where no process can be forked: the machine and what the system says.
NO_PROCESS = ("machine %s has no process to spare for it now (%s; a limit such as ulimit -u or TasksMax=, or no "
              "memory); it is tried again")


class Refused(Exception):
    """A request cannot be done; ``str(error)`` is the sentence for the answer."""


class _Child(NamedTuple):
    pid: int
    #: The keeper writes a byte here when something changed; it ends with the keeper.
    pipe: int


class Agent:
    """Talks over the given descriptors. ``run`` returns when the other side closes its end."""

    def __init__(self, requests: int = 0, answers: int = 1) -> None:
        self._requests = requests
        # nothing else may write into the answers: stdout becomes stderr
        self._answers = os.dup(answers)
        if answers == 1:
            os.dup2(2, 1)
        self._selector = selectors.DefaultSelector()
        self._children: Dict[str, _Child] = {}
        self._told: Dict[str, FolderState] = {}  # folders of which something may come, and what was said of them last
        self._to_look_at: Dict[str, float] = {}  # folders whose keepers spoke, and when to look, soonest first
        self._finishers: Dict[str, int] = {}
        self._killed: Set[str] = set()  # folders whose keeper was killed and that no other could be forked for yet
        self._again: Dict[str, float] = {}  # folders whose keeper gave way for want of room, and when to fork another
        self._strange: Set[str] = set()  # folders whose files could not be understood, which was logged
        self._relay: Optional[Relay] = None
        self._warm: Optional[WarmParents] = None
        self._hanging: Dict[str, Any] = {}  # programs of GPU drivers that cannot be killed, see smi_program
        self._others: Set[int] = set()  # children that are no keepers: those forked for a question, those from before
        self._reaps_orphans = False
        self._orphans: Dict[int, float] = {}  # what killed keepers left, and when it is killed
        self._orphans_end_at = 0.0  # when that is for those of the keeper that was killed last
        self._closing = False

    def run(self) -> int:
        """Exit status 0. Call it on the main thread of a process without other threads."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._signal_reader, self._signal_writer = os.pipe()
        os.set_blocking(self._signal_reader, False)
        os.set_blocking(self._signal_writer, False)
        signal.set_wakeup_fd(self._signal_writer, warn_on_full_buffer=False)
        os.set_blocking(self._requests, False)
        self._selector.register(self._requests, selectors.EVENT_READ, self._read_requests)
        self._selector.register(self._signal_reader, selectors.EVENT_READ, self._read_signals)
        self._buffer = b""
        with contextlib.suppress(ImportError):  # keepers use these; forked, they have them at once
            import ctypes  # noqa: F401
            import encodings.ascii
            import encodings.idna  # noqa: F401
        unpack_for_trials()
        prepare_trials_group()  # this finds the own group, too; keepers need not look for it
        remove_leftovers()
        self._others.update(machine.children_of(os.getpid()))  # of a program that became this one
        self._reaps_orphans = become_reaper_of_orphans()
        gc.freeze()  # what is here is for keepers to share, not for their collectors to touch
        self._send({"event": "hello", "version": AGENT_VERSION, "pid": os.getpid(),
                    "python": machine.python_version(), "machine_id": machine.machine_id(), "host": machine.host(),
                    "home": os.path.expanduser("~")})
        load = MachineLoad()
        next_look = time.monotonic() + LOOK_EVERY
        next_load = time.monotonic() + LOOK_EVERY  # soon: people look at what has just begun
        while not self._closing:
            until = min(next_look, next(iter(self._to_look_at.values()), next_look))
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                key.data()
            self._look_where_keepers_spoke()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + LOOK_EVERY
                self._look_at_all()
            if time.monotonic() >= next_load:
                next_load = time.monotonic() + LOAD_EVERY
                self._tell_load(load)
        if self._relay is not None:
            self._relay.close()
        if self._warm is not None:
            self._warm.close()
        signal.set_wakeup_fd(-1)
        return 0

    # --- verbs -----------------------------------------------------------------------------

    def _do_start(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """start {folder, job, access} -> {state}: begin or go on with an attempt; harmless when repeated.

        Of a trial with several nodes each node is started in a folder of its own. The state of rank 0 has the port on
        which they meet, once its command runs.
        """
        folder = _folder_of(request)
        job, access_document = request.get("job"), request.get("access")
        if not isinstance(job, dict) or not isinstance(job.get("job_name"), str):
            raise Refused("start needs a job with a job_name")
        if not isinstance(access_document, dict):
            raise Refused("start needs access: {urls, token, url_file, ca_file}")
        try:
            access = access_from_document(access_document)
        except ValueError as error:
            raise Refused(str(error)) from error
        state = self._state(folder)
        if state["keeper_pid"] is None and state["state"] not in (CANCELED, ENDED_STATE):
            make_private_folder(folder)
            if read_object(os.path.join(folder, contract.JOB_FILE)) is None:  # a power cut may have left it empty
                _note_node(folder, job)
                write_file(os.path.join(folder, contract.JOB_FILE), json.dumps(job))
            if access.has_server or saved_access(folder) is None:
                save_access(folder, access)
            try:
                if job.get("metrics"):  # for this keeper and all further ones at once
                    import trialkeeper.mlflow_endpoint
                    import trialkeeper.script_metrics  # noqa: F401
                if job.get("warm_start"):
                    self._take_warm_requests()
                self._fork_keeper(folder)
            except (OSError, MemoryError) as error:
                raise Refused(NO_PROCESS % (machine.host(), error)) from error
            state = self._state(folder)
        self._note(folder, state)
        return {"state": state}

    def _do_state(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """state {folders, accepted} -> {states: {folder: state}}; those folders are watched from now on.

        A folder whose files cannot be understood is left out.
        ``accepted``, where there is one for a folder: the highest entry of its journal that the server has.
        """
        folders = request.get("folders")
        if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
            raise Refused("state needs folders: a list of paths")
        accepted = request.get("accepted")
        states: Dict[str, FolderState] = {}

        def look(folder: str) -> None:
            if isinstance(accepted, dict) and isinstance(accepted.get(folder), int):
                self._deliver_again(folder, accepted[folder])
            self._finish_if_needed(folder)
            state = self._state(folder)
            self._note(folder, state)
            states[folder] = state

        for folder in folders:
            self._look_after(folder, look)
        return {"states": states}

    def _do_stop(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """stop {folder} -> {state}: nothing will be started there any more, and what runs is told to end."""
        folder = _folder_of(request)
        make_private_folder(folder)
        write_file(os.path.join(folder, contract.CANCELED_FILE), "", durable=True)
        state = self._state(folder)
        if state["state"] != ENDED_STATE:
            if state["keeper_pid"] is not None:
                _signal(state["keeper_pid"], signal.SIGTERM)
                wake(folder)
            else:
                self._finishers.pop(folder, None)  # somebody wants it: keepers that failed may work by now
                self._finish_if_needed(folder)
                state = self._state(folder)
        self._note(folder, state)
        return {"state": state}

    def _do_deliver(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """deliver {folder, orders} -> {}: hand orders to the keeper."""
        folder, orders = _folder_of(request), request.get("orders")
        if not isinstance(orders, list):
            raise Refused("deliver needs orders: a list")
        if not os.path.isdir(folder):
            raise Refused("there is no folder %s" % folder)
        path = os.path.join(folder, contract.ORDERS_FILE)
        try:
            waiting = json.loads(read_text(path) or "[]")
        except (ValueError, RecursionError):
            waiting = []
        write_file(path, json.dumps([*waiting, *orders] if isinstance(waiting, list) else orders))
        wake(folder)
        return {}

    def _do_remove(self, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """remove {folder, undelivered} -> {}: delete an attempt's folder; refused while its keeper lives.

        ``undelivered`` true: a keeper whose trial has ended and that only still tries to report is killed; ask again.
        """
        folder = _folder_of(request)
        pid = keeper_pid(folder) or self._child_pid(folder)
        if pid is not None:
            if request.get("undelivered") is True and self._state(folder)["state"] == ENDED_STATE:
                _signal(pid, signal.SIGKILL)
                raise Refused("the keeper with process id %d in %s is being ended: ask again" % (pid, folder))
            raise Refused("the folder %s is in use by the keeper with process id %d: stop it first" % (folder, pid))
        if os.path.isdir(folder) and not _is_attempt(folder):
            raise Refused("%s holds no attempt, so it is not removed" % folder)
        self._told.pop(folder, None)
        self._finishers.pop(folder, None)
        self._again.pop(folder, None)
        self._killed.discard(folder)
        self._strange.discard(folder)
        self._in_child(request["id"], lambda: _remove(folder))
        return None

    def _do_gpus(self, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """gpus {} -> {gpus: [...]}, or {gpus: [], error: why}."""
        self._in_child(request["id"], lambda: _gpus(self._hanging), self._note_hanging)
        return None

    def _do_image(self, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """image {image, engine, pull} -> ImageDocument: have the image on this machine; takes as long as its pull."""
        image, engine, pull = request.get("image"), request.get("engine"), request.get("pull")
        if not isinstance(image, str) or not image or image.startswith("-"):
            raise Refused("image needs image: the name of one")
        if engine not in contract.ENGINES or pull not in contract.PULLS:
            raise Refused("image needs engine, one of %s, and pull, one of %s"
                          % (", ".join(contract.ENGINES), ", ".join(contract.PULLS)))
        self._in_child(request["id"], lambda: dict(prepare_image(image, engine, pull)))
        return None

    def _do_machine(self, request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """machine {paths} -> what machine.description says, the program that is asked about GPUs, no_control_groups,
        and what trials may have: for_trials {cpus, memory (bytes, None: not known), is_kept (by the kernel)}.
        """
        paths = request.get("paths") or []
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise Refused("machine needs paths: a list of paths")
        self._in_child(request["id"], lambda: {**machine.description(paths), "nvidia_smi": gpu_program(),
                                               "no_control_groups": why_not(), "for_trials": _for_trials()})
        return None

    def _do_relay(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """relay {file} -> {}: take requests of keepers on a socket that ``file`` names; they come as relay events.

        A request is ``{"event": "relay", "relay": n, "method", "path", "headers", "length"}``, then, until so many
        bytes have come, ``{"event": "relay", "relay": n, "data": base64}``; ``gone`` true: the keeper went away.
        """
        file = request.get("file")
        if not isinstance(file, str) or not os.path.isabs(file):
            raise Refused("relay needs file: an absolute path")
        if self._relay is None:
            self._relay = Relay(file, self._selector, self._send)
        return {}

    def _do_answer(self, request: Dict[str, Any]) -> None:
        """answer {relay, status, headers, data}: what the server said to a relayed request. Is not answered itself."""
        if self._relay is not None:
            self._relay.answer(request["relay"], request["status"], request["headers"],
                               base64.b64decode(request["data"]))

    # --- attempts --------------------------------------------------------------------------

    def _take_warm_requests(self) -> None:
        """Where that is not possible (a full temporary folder), trials are started plainly."""
        if self._warm is None:
            try:
                self._warm = WarmParents(self._selector)
            except OSError as error:
                sys.stderr.write("agent: no trial can be started warm: %s\n" % error)

    def _state(self, folder: str) -> FolderState:
        return folder_state(folder, self._child_pid(folder))

    def _note(self, folder: str, state: FolderState) -> None:
        """This was said of the folder. One of which nothing more can come is not watched any longer: an agent lives as
        long as its server, and thousands of attempts end meanwhile.
        """
        is_over = state["state"] == CANCELED or state["delivered"]
        if is_over and folder not in self._children:
            self._told.pop(folder, None)
            self._finishers.pop(folder, None)
            self._killed.discard(folder)
            self._again.pop(folder, None)
        else:
            self._told[folder] = state

    def _child_pid(self, folder: str) -> Optional[int]:
        child = self._children.get(folder)
        return None if child is None else child.pid

    def _finish_if_needed(self, folder: str, killed: bool = False, orphans: Sequence[int] = ()) -> None:
        """Fork a keeper where one died before its attempt had ended, or was ``killed`` before all was delivered.

        ``orphans``: process ids of what the killed one left.
        """
        if self._child_pid(folder) is not None or keeper_pid(folder) is not None:
            return
        killed = killed or folder in self._killed
        undelivered = (killed or folder not in self._told) and _is_undelivered(folder)
        tries = self._finishers.get(folder, 0)
        if (needs_finishing(folder) or undelivered) and tries < MOST_FINISHERS:
            if self._forks_keeper(folder, orphans):
                self._finishers[folder] = tries + 1
                self._killed.discard(folder)
            elif killed:
                self._killed.add(folder)
        elif waits_for_room(folder) and not os.path.exists(os.path.join(folder, contract.CANCELED_FILE)):
            # its keeper gave way: another one is forked after a while, not at the same time as those of others
            due = self._again.setdefault(folder, time.monotonic() + AGAIN_AFTER * (0.5 + 0.5 * random.random()))
            if time.monotonic() >= due:
                del self._again[folder]
                self._forks_keeper(folder)

    def _forks_keeper(self, folder: str, orphans: Sequence[int] = ()) -> bool:
        """Fork one, or leave it to a later look where the machine has no process to spare."""
        try:
            self._fork_keeper(folder, orphans)
        except (OSError, MemoryError) as error:
            sys.stderr.write("agent: no keeper for %s now, it is tried again: %s\n" % (folder, error))
            return False
        return True

    def _deliver_again(self, folder: str, accepted: int) -> None:
        """Have entries sent once more that the server has lost since (it came back from a backup); sending known ones
        is harmless. A keeper that lives needs no telling: it hears of it with the next answer.
        """
        if self._child_pid(folder) is None and keeper_pid(folder) is None and read_accepted(folder) > accepted:
            write_file(os.path.join(folder, contract.ACCEPTED_FILE), str(accepted))
            self._told.pop(folder, None)
            self._finishers.pop(folder, None)

    def _fork_keeper(self, folder: str, orphans: Sequence[int] = ()) -> None:
        reader, writer = os.pipe()
        # a signal must not fall between the fork and the keeper's own handlers
        held = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, held)
        try:
            pid = os.fork()
            if pid == 0:
                _become_keeper(folder, writer, [(orphan, machine.process_start_time(orphan)) for orphan in orphans],
                               None if self._warm is None else self._warm.path)
        except BaseException:
            os.close(reader)
            os.close(writer)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        os.close(writer)
        os.set_blocking(reader, False)
        self._children[folder] = _Child(pid, reader)
        self._selector.register(reader, selectors.EVENT_READ, lambda: self._hear_keeper(folder, reader))

    def _hear_keeper(self, folder: str, pipe: int) -> None:
        try:
            ended = os.read(pipe, 4096) == b""
        except BlockingIOError:
            return
        if ended:
            self._selector.unregister(pipe)
            os.close(pipe)
            child = self._children.pop(folder)
            _, status = os.waitpid(child.pid, 0)  # its pipe closed because it is ending now
            self._look_after(folder, lambda folder: self._finish_if_needed(
                folder, os.WIFSIGNALED(status), self._adopt(folder)))
        self._to_look_at.setdefault(folder, time.monotonic() + GATHER)

    def _new_orphans(self) -> List[int]:
        """Children that this agent did not fork and has not seen: what keepers left that were killed."""
        if not self._reaps_orphans:
            return []
        known = {child.pid for child in self._children.values()} | self._others | self._orphans.keys()
        new = [pid for pid in machine.children_of(os.getpid()) if pid not in known]
        if new and self._warm is not None:
            self._warm.read()  # which of them it has
            new = [pid for pid in new if not self._warm.is_one(pid)]
        return new

    def _adopt(self, folder: str) -> List[int]:
        """The orphans of a keeper that has just ended. They have as long as a trial that is told to end."""
        found = self._new_orphans()
        if found:
            limits = (read_object(os.path.join(folder, contract.JOB_FILE)) or {}).get("limits") or {}
            self._orphans_end_at = time.monotonic() + limits.get("grace_period", DEFAULT_GRACE) + FINISHING
            self._orphans.update(dict.fromkeys(found, self._orphans_end_at))
        return found

    def _end_orphans(self) -> None:
        """Reap orphans that have ended, kill those whose time is over; what they left in their turn, too."""
        now = time.monotonic()
        self._orphans.update(dict.fromkeys(self._new_orphans(), max(now, self._orphans_end_at)))
        for pid, end_at in list(self._orphans.items()):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                del self._orphans[pid]
            elif now >= end_at:
                _signal(pid, signal.SIGKILL)

    def _look_after(self, folder: str, work: Callable[[str], None]) -> None:
        """A trial can write into its folder: what it does there must not end the agent of all others."""
        try:
            work(folder)
        except Exception:
            if folder not in self._strange:
                self._strange.add(folder)
                sys.stderr.write("agent: %s cannot be understood:\n%s" % (folder, traceback.format_exc()))

    def _look_where_keepers_spoke(self) -> None:
        now = time.monotonic()
        for folder in [folder for folder, due in self._to_look_at.items() if due <= now]:
            del self._to_look_at[folder]
            self._look_after(folder, self._tell_if_changed)

    def _look_at_all(self) -> None:
        if self._warm is not None:
            self._warm.look()
        self._end_orphans()
        for folder in list(self._told):
            if folder not in self._children:
                self._look_after(folder, self._finish_if_needed)
                self._look_after(folder, self._tell_if_changed)

    def _tell_if_changed(self, folder: str) -> None:
        state = self._state(folder)
        if folder in self._told:
            is_news = state != self._told[folder]
            self._note(folder, state)
            if is_news:
                self._send({"event": "state", "folder": folder, "state": state})

    def _tell_load(self, load: MachineLoad) -> None:
        told = load.read()
        if told is not None:
            self._send({"event": "load", "load": told})

    # --- the wire --------------------------------------------------------------------------

    def _read_requests(self) -> None:
        try:
            data = os.read(self._requests, 1024 * 1024)
        except BlockingIOError:
            return
        if not data:
            self._closing = True
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._answer(line)

    def _answer(self, line: bytes) -> None:
        number: Any = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise Refused("a request is a JSON object {id, do, ...}")
            number = request.get("id")
            request["id"] = number
            verb: Optional[Callable[[Dict[str, Any]], Optional[Dict[str, Any]]]] = None
            if isinstance(request.get("do"), str):
                verb = getattr(self, "_do_" + request["do"], None)
            if verb is None:
                known = sorted(name[4:] for name in dir(self) if name.startswith("_do_"))
                raise Refused("%r is not known; known: %s" % (request.get("do"), ", ".join(known)))
            result = verb(request)
        except (Refused, OSError, ValueError) as error:
            self._send({"id": number, "ok": False, "error": str(error)})
        except Exception as error:  # a bug of ours must not end the agent for all other attempts
            traceback.print_exc()
            self._send({"id": number, "ok": False, "error": "the agent failed: %s: %s" % (type(error).__name__, error)})
        else:
            if result is not None:
                self._send({"id": number, "ok": True, **result})

    def _note_hanging(self, answer: Dict[str, Any]) -> None:
        """The next child must not ask a driver that hangs, either."""
        self._hanging = answer.pop("hanging", self._hanging)

    def _in_child(self, number: Any, work: Callable[[], Dict[str, Any]],
                  seen: Callable[[Dict[str, Any]], None] = lambda answer: None) -> None:
        """Answer request ``number`` with what ``work`` returns in a forked child. ``seen`` may take from the answer
        what is for the agent.
        """
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except (OSError, MemoryError) as error:
            os.close(reader)
            os.close(writer)
            raise Refused(NO_PROCESS % (machine.host(), error)) from error
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                os.close(self._answers)  # the other side shall see at once when the agent ends
                for held in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(held, signal.SIG_DFL)
                try:
                    answer = {"id": number, "ok": True, **work()}
                except Exception as error:
                    answer = {"id": number, "ok": False, "error": str(error) or type(error).__name__}
                _write_all(writer, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(writer)
        self._others.add(pid)
        parts: List[bytes] = []

        def hear() -> None:
            part = os.read(reader, 1024 * 1024)
            parts.append(part)
            if not part:
                self._selector.unregister(reader)
                os.close(reader)
                os.waitpid(pid, 0)
                self._others.discard(pid)
                text = b"".join(parts)
                answer = json.loads(text) if text else \
                    {"id": number, "ok": False, "error": "the agent's child was ended by somebody"}
                seen(answer)
                self._send(answer)

        self._selector.register(reader, selectors.EVENT_READ, hear)

    def _send(self, document: Dict[str, Any]) -> None:
        try:
            _write_all(self._answers, json.dumps(document).encode("ascii") + b"\n")
        except OSError:
            self._closing = True  # nobody listens any more

    def _note_signal(self, number: int, frame: Any) -> None:
        self._closing = True

    def _read_signals(self) -> None:
        os.read(self._signal_reader, 4096)


def _become_keeper(folder: str, pipe: int, orphans: Sequence[Tuple[int, Optional[str]]],
                   warm_socket: Optional[str]) -> None:
    """In the forked child: let go of everything that is the agent's, then be the keeper. Does not return."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        log = nothing = os.open(os.devnull, os.O_RDWR)
        with contextlib.suppress(OSError):  # the disk is full, or the trial has put a pipe there
            log = os.open(os.path.join(folder, contract.KEEPER_LOG_FILE),
                          os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
        for standard, target in ((0, nothing), (1, log), (2, log)):
            os.dup2(target, standard)
        for descriptor in [int(name) for name in os.listdir("/dev/fd")]:
            if descriptor > 2 and descriptor != pipe:
                with contextlib.suppress(OSError):  # the one that listed them is closed already
                    os.close(descriptor)
        os.set_blocking(pipe, False)

        def changed() -> None:
            with contextlib.suppress(OSError):  # the agent is gone, or has not read for long
                os.write(pipe, b"!")

        status = Keeper(folder, job_name_of(folder), saved_access(folder), changed=changed, orphans=orphans,
                        is_started_again=True, warm_socket=warm_socket).run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _folder_of(request: Dict[str, Any]) -> str:
    folder = request.get("folder")
    if not isinstance(folder, str) or not os.path.isabs(folder):
        raise Refused("the request needs folder: an absolute path")
    return folder


def _note_node(folder: str, job: Dict[str, Any]) -> None:
    """Of a trial with several nodes: which of them this is. Who asks for the folder's state is told."""
    if isinstance(job.get("node"), dict):
        write_file(os.path.join(folder, contract.NODE_FILE), json.dumps(job["node"]))


def _is_attempt(folder: str) -> bool:
    names = (contract.JOB_FILE, contract.JOURNAL_FILE, contract.KEEPER_FILE, contract.CANCELED_FILE)
    return any(os.path.exists(os.path.join(folder, name)) for name in names)


def _is_undelivered(folder: str) -> bool:
    state = folder_state(folder)
    access = saved_access(folder)
    return bool(state["state"] == ENDED_STATE and not state["delivered"]
                and access is not None and access.has_server)


def _remove(folder: str) -> Dict[str, Any]:
    from trialkeeper.folder_removal import remove_tree
    summary = summary_of(folder)
    group = None if summary is None else recorded_group(folder, summary.journal_id)
    if group is not None:  # of an attempt that nobody finished; the others removed theirs
        group.kill()
        group.remove()
    if summary is not None and read_object(os.path.join(folder, contract.EXIT_FILE)) is None:
        remove_left_container(read_object(os.path.join(folder, contract.JOB_FILE)) or {}, summary.journal_id)
    if os.path.lexists(folder):
        remove_tree(folder)
    return {}


def _gpus(known_to_hang: Dict[str, Any]) -> Dict[str, Any]:
    smi_program.remember_hanging(known_to_hang)
    try:
        gpus = read_gpus()
        for gpu in gpus:
            gpu["others_bytes"] = _memory_of_others(gpu.pop("memory_of", {}), gpu["processes"])
        return {"gpus": gpus, "hanging": smi_program.hanging()}
    except smi_program.NoGpuReading as error:
        return {"gpus": [], "error": str(error), "hanging": smi_program.hanging()}


def _for_trials() -> Dict[str, Any]:
    group = own_folder()
    usable = usable_memory(group)
    return {"cpus": usable_cpus(group), "memory": None if usable is None else memory_for_trials(usable),
            "is_kept": folder_of_trials() != group}


def _memory_of_others(memory_of: Dict[int, int], processes: int) -> Optional[int]:
    """Bytes of those that are no trials of this machine; None where the driver does not tell what each one has, or
    names them by numbers of another container.
    """
    others = {pid: is_of_a_trial(pid) for pid in memory_of}
    if len(memory_of) < processes or None in others.values():
        return None
    return sum(used for pid, used in memory_of.items() if not others[pid])


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        os.kill(pid, number)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


if __name__ == "__main__":
    sys.exit(Agent().run())
