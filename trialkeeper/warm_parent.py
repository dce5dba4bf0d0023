"""The parent of warm trials: a program that the trial's own Python runs. It imports modules once, and forks for each
trial.

The machine's agent starts it (``warm_parents.py``) and hands it the requests of keepers. It copies this file,
``warm_imports.py``, ``warm_beside.py`` and ``warm_trial.py`` into a folder of its own, so they import nothing else, and
run in any CPython from 3.6 on.

For each trial two processes are forked. The first one stands beside the trial as its parent: it is the reaper of the
trial's orphans, tells the keeper how the trial ended, and ends when nothing of the trial is left. It ends at once when
the keeper hangs up, which leaves the trial's processes to the agent, as the end of a keeper does. The second one is
the trial. It is forked when the keeper says so, and never otherwise: a keeper that has not said so may start the trial
plainly. Neither needs the parent any more.

Messages are JSON in packets. agent -> parent: first {modules, idle, alarm, ...}, then for each trial the
descriptors of the keeper's connection, the request, stdout and stderr. parent -> agent: {ready, memory, modules},
{refused: reason}, {beside: pid} or {plain: cause} for each trial, {learned: names}. To the keeper: {plain: reason} or
{beside: pid, memory, modules}; it answers "go"; then {pid}, {status} once the trial has ended, and {empty} when nothing
of it is left.
"""

import sys

#: What a plain start would have loaded before the script begins.
LOADED_AT_START = frozenset(sys.modules)

import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402

TYPE_CHECKING = False  # typing itself would be loaded in each trial
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from trialkeeper import warm_imports, warm_trial
    from trialkeeper.warm_beside import PACKET, become_reaper, close, mark_process, receive_descriptors, send, watch
    from trialkeeper.warm_imports import Refused
else:
    _path = list(sys.path)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import warm_imports
    import warm_trial
    from warm_beside import PACKET, become_reaper, close, mark_process, receive_descriptors, send, watch
    from warm_imports import Refused
    sys.path[:] = _path

#: Seconds between two looks whether files of loaded modules have changed.
LOOK_AT_FILES_EVERY = 1.0
PARENT_PID = os.getpid()


class Parent:
    """Call ``serve``; it returns a Trial in each process that is one, and None where the parent itself is to end."""

    def __init__(self, agent: int) -> None:
        """``agent``: the descriptor of the connection to it."""
        self._agent = socket.socket(fileno=agent)
        self._agent.set_inheritable(False)
        self._files: "Dict[str, Tuple[int, int]]" = {}
        self._looked_at = 0.0
        self._memory = 0
        self._imported = 0
        #: Of the environment, what the imports have set, and None for what they have removed.
        self._variables: "Dict[str, Optional[str]]" = {}
        self._at_the_end: "List[Tuple[int, Optional[int]]]" = []
        self._learns = False
        self._learned: "Optional[Tuple[socket.socket, socket.socket]]" = None
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    def serve(self) -> "Optional[warm_trial.Trial]":
        """Import what is to be imported, then fork for each request until it has been idle, or the agent is gone."""
        first = json.loads(self._agent.recv(PACKET).decode() or "null")
        if first is None:
            return None
        try:
            self._prepare(first)
        except Refused as refused:
            self._tell_agent({"refused": refused.reason})
            self._answer_all_plainly(refused.reason)
            return None
        self._tell_agent({"ready": True, "memory": self._memory, "modules": self._imported})
        readers = [self._agent] + ([self._learned[0]] if self._learned else [])
        while True:
            found = select.select(readers, [], [], first["idle"])[0]
            self._reap()
            if not found:
                return None
            if self._learned and self._learned[0] in found:
                self._pass_on_learned()
                readers = [self._agent]
            if self._agent in found:
                descriptors = receive_descriptors(self._agent)
                if not descriptors:
                    return None
                try:
                    trial = self._begin(descriptors)
                except Refused as refused:
                    self._tell_agent({"refused": refused.reason})
                    self._answer_all_plainly(refused.reason)
                    return None
                finally:
                    for descriptor in descriptors:
                        close(descriptor)
                if trial is not None:
                    return trial

    # --- before the first trial ------------------------------------------------------------

    def _prepare(self, first: "Dict[str, Any]") -> None:
        if sys.implementation.name != "cpython":
            raise Refused("interpreter", sys.implementation.name)
        try:
            import ctypes  # noqa: F401
        except ImportError as error:
            raise Refused("interpreter", "CPython without ctypes") from error
        if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
            del sys.path[0]  # the folder of this file; a trial has that of its script
        before = warm_imports.open_files()
        self._learns = first["modules"] is None
        signal.alarm(first["alarm"])  # an import that hangs ends, also where the agent is gone
        imported, self._variables = warm_imports.import_modules(
            first["modules"] or [], set(first["trial_variables"]), skip_missing=bool(first["learned"]))
        self._imported = len(imported)
        self._at_the_end = warm_imports.functions_that_keep_data()
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        warm_imports.refuse_what_does_not_fork(before)
        if self._learns:
            self._learned = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gc.collect()
        if hasattr(gc, "freeze"):
            gc.freeze()  # what is here is for trials to share, not for their collectors to touch
        self._memory = warm_imports.resident_bytes()
        if first["memory_limit"] and self._memory > first["memory_limit"]:
            raise Refused("memory", "%d MiB" % (self._memory >> 20))
        self._files = {path: warm_imports.stamp_of(path) for path in warm_imports.watched_files(LOADED_AT_START)}

    # --- a trial ---------------------------------------------------------------------------

    def _begin(self, descriptors: "List[int]") -> "Optional[warm_trial.Trial]":
        """Fork for one request; a Trial in the process that is it. Raises Refused."""
        connection = socket.socket(fileno=os.dup(descriptors[0]))
        try:
            request = json.loads(read_whole(descriptors[1]).decode("utf-8", "surrogateescape"))
            self._refuse_what_has_changed()
            name = warm_trial.shadowed_module(request, LOADED_AT_START)
            if name:
                send(connection, {"plain": {"cause": "shadowed", "detail": name}})
                self._tell_agent({"plain": "shadowed"})
                return None
            try:
                pid = os.fork()
            except OSError as error:
                send(connection, {"plain": {"cause": "no_process", "detail": str(error)}})
                self._tell_agent({"plain": "no_process"})
                return None
            if pid:
                return None
        except Refused as refused:
            send(connection, {"plain": refused.reason})
            raise
        finally:
            if os.getpid() == PARENT_PID:
                connection.close()
        try:
            return self._stand_beside(connection, request, descriptors)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    def _stand_beside(self, connection: "socket.socket", request: "Dict[str, Any]", descriptors: "List[int]"
                      ) -> "warm_trial.Trial":
        """In the forked process. Returns in the trial alone."""
        os.setsid()
        become_reaper()
        mark_process(request["mark_variable"], request["mark"])  # before it is known: so is whatever it starts
        self._tell_agent({"beside": os.getpid()})
        self._agent.close()
        if self._learned:
            self._learned[0].close()
        send(connection, {"beside": os.getpid(), "memory": self._memory, "modules": self._imported,
                          "learns": self._learns})
        if connection.recv(PACKET) != b"go":
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            pid = os.fork()
        except OSError as error:
            send(connection, {"plain": {"cause": "no_process", "detail": str(error)}})
            os._exit(0)
        if pid == 0:
            connection.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            return warm_trial.Trial(request, descriptors[2], descriptors[3], self._variables, self._at_the_end,
                                    self._learned[1].detach() if self._learned else None)
        if self._learned:
            self._learned[1].close()
        for descriptor in descriptors:
            close(descriptor)
        send(connection, {"pid": pid})
        watch(connection, pid)
        os._exit(0)

    def _refuse_what_has_changed(self) -> None:
        """Where what was imported is not what a plain start would import now."""
        import time
        now = time.monotonic()
        if now - self._looked_at < LOOK_AT_FILES_EVERY:
            return
        self._looked_at = now
        for path, stamp in self._files.items():
            if warm_imports.stamp_of(path) != stamp:
                raise Refused("changed", path)

    # --- small things ----------------------------------------------------------------------

    def _pass_on_learned(self) -> None:
        assert self._learned is not None
        names = self._learned[0].recv(PACKET).decode("utf-8", "replace").split()
        if names:
            self._tell_agent({"learned": names})
        else:
            self._learns = False  # there is nothing to be imported
        for end in self._learned:
            end.close()
        self._learned = None

    def _answer_all_plainly(self, reason: "Dict[str, Any]") -> None:
        """To those who wait already, until the agent hangs up; what comes later it answers itself."""
        while True:
            descriptors = receive_descriptors(self._agent)
            if not descriptors:
                return
            connection = socket.socket(fileno=descriptors[0])
            send(connection, {"plain": reason})
            connection.close()
            for descriptor in descriptors[1:]:
                close(descriptor)

    def _tell_agent(self, message: "Dict[str, Any]") -> None:
        send(self._agent, message)

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def read_whole(descriptor: int) -> bytes:
    """The content of a file."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


if __name__ == "__main__":
    _trial = Parent(int(sys.argv[1])).serve()
    if _trial is not None:
        _trial.run()
