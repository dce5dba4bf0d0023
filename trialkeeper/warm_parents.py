"""The agent's side of warm trials: takes requests of keepers on a socket and passes each to the parent that can serve
it, which is started when it is asked for first.

A parent belongs to one experiment, one Python and one environment (the request's ``key``). Where the modules are to be
learned, the first parent has imported nothing; when a trial of it has ended, the next parent imports what that trial
had loaded, and takes over. Trials that come meanwhile wait for it: it takes no longer than the imports of each of them
would, and they leave it the processors. No threads: the agent's selector calls.
"""

import contextlib
import json
import os
import selectors
import shutil
import socket
import struct
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

from trialkeeper import machine
from trialkeeper.warm_beside import PACKET, receive_descriptors
from trialkeeper.warm_parent_process import PREFIX, WarmParentProcess, lay_program, remove_leftovers

#: Seconds without a request after which a parent ends; seconds that it may take to import its modules.
IDLE, IMPORT_SECONDS = 60.0, 60.0
#: Parents of one agent, and the part of the machine's memory that they may take together.
MOST_PARENTS, PART_OF_MEMORY = 8, 0.25
#: Seconds for which a parent that cannot serve is not tried again.
REFUSED_SECONDS = 600.0
#: Seconds without a request after which a parent makes room for another one.
MAKES_ROOM_AFTER = 10.0
#: Seconds for which imports may take longer than is allowed, before a parent whose agent is gone ends by itself.
ALARM_AFTER = 15
#: Keys of which something is remembered.
_MOST_KEYS = 200


class WarmParents:
    """``close`` it at the agent's end: parents end, trials go on."""

    def __init__(self, selector: selectors.BaseSelector, *, idle: float = IDLE,
                 import_seconds: float = IMPORT_SECONDS, memory: Optional[int] = None) -> None:
        """``memory``: bytes that all parents may take together; else a part of the machine's. Raises OSError."""
        self._selector, self._idle, self._import_seconds = selector, idle, import_seconds
        self._limit = int((machine.memory_total() or 0) * PART_OF_MEMORY) if memory is None else memory
        self._parents: Dict[str, WarmParentProcess] = {}  # by key: those that serve
        self._next: Dict[str, WarmParentProcess] = {}  # those that have learned, and take over when they are ready
        self._ending: List[WarmParentProcess] = []
        self._learned: Dict[str, List[str]] = {}
        self._refused: Dict[str, Tuple[float, Dict[str, Any]]] = {}
        self._beside: Dict[int, Optional[str]] = {}  # processes beside trials, and when they were started
        self._count = 0  # of parents that were started
        remove_leftovers()
        self._folder = tempfile.mkdtemp(prefix="%s%d-" % (PREFIX, os.getpid()))  # 0700
        lay_program(self._folder)
        #: Where keepers ask.
        self.path = os.path.join(self._folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listener.bind(self.path)
        except OSError:  # its folder has a long path
            self._listener.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._listener.listen(128)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def is_one(self, pid: int) -> bool:
        """Whether this child of the agent is a parent, or stands beside a trial."""
        return pid in self._beside or any(parent.process.pid == pid for parent in self._all())

    def read(self) -> None:
        """Take in what parents have told, as far as it has come."""
        for parent in self._all():
            while self._hear(parent):
                pass

    def description(self) -> List[Dict[str, Any]]:
        """The parents that are there: pid, experiment, memory (bytes), modules."""
        return [{"pid": parent.process.pid, "experiment": parent.experiment, "memory": parent.memory,
                 "modules": parent.modules} for parent in self._all() if parent.is_ready]

    def look(self) -> None:
        """Now and then: end parents that import for too long, forget what has ended."""
        now = time.monotonic()
        for parent in self._all():
            if not parent.is_ready and now - parent.started_at >= self._import_seconds \
                    or parent.is_stuck(self._import_seconds):
                self._refuse(parent, _reason("slow", "%g s" % self._import_seconds))
                parent.process.kill()
            if parent.process.poll() is not None:
                while self._hear(parent):
                    pass
                self._drop(parent)
                if parent.connection.fileno() < 0:
                    self._ending.remove(parent)
        for pid, start_time in list(self._beside.items()):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            if not machine.process_lives(pid, start_time):
                del self._beside[pid]

    def close(self) -> None:
        """End all parents and take no more requests."""
        for parent in self._all():
            if parent.connection.fileno() >= 0:
                self._selector.unregister(parent.connection)
                parent.connection.close()
        self._selector.unregister(self._listener)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _all(self) -> List[WarmParentProcess]:
        return [*self._parents.values(), *self._next.values(), *self._ending]

    # --- requests --------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            taken, _ = self._listener.accept()
        except OSError:
            return
        _, uid, _ = struct.unpack("3i", taken.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if uid not in (os.geteuid(), 0):
            taken.close()
            return
        self._selector.register(taken, selectors.EVENT_READ, lambda: self._take_request(taken))

    def _take_request(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        descriptors: List[int] = []
        try:
            descriptors = receive_descriptors(connection)
            if len(descriptors) != 3:
                return
            request = json.loads(os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0))
            reason = self._pass_on(request, [connection.fileno(), *descriptors])
            if reason is not None:
                connection.send(json.dumps({"plain": reason}).encode(), socket.MSG_NOSIGNAL)
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.stderr.write("agent: a request for a warm trial failed: %s\n" % error)
        finally:
            connection.close()
            for descriptor in descriptors:
                os.close(descriptor)

    def _pass_on(self, request: Dict[str, Any], descriptors: List[int]) -> Optional[Dict[str, Any]]:
        """None, or why the trial is to be started plainly."""
        key = request["key"]
        at, reason = self._refused.get(key, (0.0, None))
        if reason is not None and time.monotonic() - at < REFUSED_SECONDS:
            return reason
        for known in (self._next, self._parents):
            parent = known.get(key)
            if parent is None:
                continue
            if parent.process.poll() is not None:
                self._drop(parent)
                continue
            with contextlib.suppress(OSError):  # it ends, or too many wait for it
                self._hand(parent, descriptors)
                return None
        parent = self._parents.get(key)
        if parent is not None:
            return _reason("ended", "")
        reason = self._make_room()
        if reason is not None:
            return reason
        try:
            parent = self._parents[key] = self._start(request, request["modules"] or self._learned.get(key),
                                                      is_learned=request["modules"] is None)
        except OSError as error:
            return _reason("no_process", error)
        try:
            self._hand(parent, descriptors)
        except OSError as error:
            return _reason("ended", error)
        return None

    def _hand(self, parent: WarmParentProcess, descriptors: List[int]) -> None:
        """Raises OSError."""
        parent.used_at = time.monotonic()
        parent.pass_on(descriptors)

    # --- parents ---------------------------------------------------------------------------

    def _start(self, request: Dict[str, Any], modules: Optional[List[str]], is_learned: bool) -> WarmParentProcess:
        """Raises OSError."""
        self._count += 1
        parent = WarmParentProcess(request, self._folder, self._count)
        parent.connection.send(json.dumps({
            "modules": modules, "learned": is_learned, "idle": self._idle, "memory_limit": self._left(),
            "alarm": int(self._import_seconds) + ALARM_AFTER,
            "trial_variables": request["parent"]["trial_variables"]}).encode(), socket.MSG_NOSIGNAL)
        self._selector.register(parent.connection, selectors.EVENT_READ, lambda: self._hear(parent))
        return parent

    def _left(self) -> Optional[int]:
        """Bytes that one more parent may take; None where that is not known."""
        if not self._limit:
            return None
        return max(1, self._limit - sum(parent.memory for parent in self._all()))

    def _make_room(self) -> Optional[Dict[str, Any]]:
        """For one more parent; why there is none."""
        unused = sorted((parent for parent in self._parents.values()
                         if time.monotonic() - parent.used_at >= MAKES_ROOM_AFTER), key=lambda one: one.used_at)
        while unused and (len(self._parents) >= MOST_PARENTS or (self._left() or self._limit) < self._limit // 2):
            self._drop(unused.pop(0))
        if len(self._parents) >= MOST_PARENTS:
            return _reason("parents", MOST_PARENTS)
        return None

    def _hear(self, parent: WarmParentProcess) -> bool:
        """One message of a parent; False where there is none."""
        if parent.connection.fileno() < 0:
            return False
        try:
            packet = parent.connection.recv(PACKET)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            packet = b""
        if not packet:  # neither it nor a process that it forked will say more
            if not parent.is_ready and parent not in self._ending:
                self._refuse(parent, _reason("failed", parent.last_words() or "without saying why"))
            self._drop(parent)
            self._selector.unregister(parent.connection)
            parent.connection.close()
            return False
        message = json.loads(packet)
        if "beside" in message:
            self._beside[message["beside"]] = machine.process_start_time(message["beside"])
        if "beside" in message or "plain" in message:
            parent.answered()
        if "ready" in message:
            parent.is_ready, parent.memory, parent.modules = True, message["memory"], message["modules"]
            parent.silent_since = time.monotonic()
            if self._next.get(parent.key) is parent:
                self._take_over(parent)
        if "learned" in message:
            self._note_learned(parent, message["learned"])
        if "refused" in message:
            self._refuse(parent, message["refused"])
        return True

    def _note_learned(self, parent: WarmParentProcess, names: List[str]) -> None:
        if parent.key in self._next or parent.request["modules"] is not None or not names:
            return
        if len(self._learned) >= _MOST_KEYS:
            self._learned.clear()
        self._learned[parent.key] = names
        with contextlib.suppress(OSError):  # the next request tries again
            self._next[parent.key] = self._start(parent.request, names, is_learned=True)

    def _take_over(self, parent: WarmParentProcess) -> None:
        del self._next[parent.key]
        before = self._parents.pop(parent.key, None)
        if before is not None:
            self._drop(before)
        parent.used_at = time.monotonic()
        self._parents[parent.key] = parent

    def _refuse(self, parent: WarmParentProcess, reason: Dict[str, Any]) -> None:
        """It cannot serve; unless only something has changed, another one could not either."""
        if reason["cause"] != "changed":
            if len(self._refused) >= _MOST_KEYS:
                self._refused.clear()
            self._refused[parent.key] = (time.monotonic(), reason)
            serving = self._parents.get(parent.key)
            if serving is not None and serving is not parent:
                self._drop(serving)
        self._drop(parent)

    def _drop(self, parent: WarmParentProcess) -> None:
        """Pass on nothing more to it; it ends when it has read that."""
        for known in (self._parents, self._next):
            if known.get(parent.key) is parent:
                del known[parent.key]
        if parent not in self._ending:
            self._ending.append(parent)
            with contextlib.suppress(OSError):  # what it is telling at this moment is heard still
                parent.connection.shutdown(socket.SHUT_WR)


def _reason(cause: str, detail: object) -> Dict[str, Any]:
    return {"cause": cause, "detail": str(detail)}
