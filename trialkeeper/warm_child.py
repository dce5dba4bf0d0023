"""A trial that a warm parent forked: what ChildProcess and ProcessTree are for one that the keeper started itself.

The trial is no child of the keeper. The process beside it (``warm_parent.py``) is its parent and the reaper of its
orphans, says how it ended, and ends when nothing of it is left.
"""

import contextlib
import hashlib
import json
import os
import select
import socket
import struct
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from trialkeeper import contract, machine
from trialkeeper.child_process import ChildProcess
from trialkeeper.process_tree import MARK_VARIABLE, ProcessTree, descendants
from trialkeeper.trial_parameters import is_of_parameters
from trialkeeper.wakeups import Wakeups
from trialkeeper.warm_command import NotWarm, PythonCall

PACKET = 64 * 1024
#: Seconds that a keeper waits for the parent, which may be importing still, before it starts the trial plainly.
PATIENCE = 90.0
#: Seconds that the fork itself may take.
_FORK_SECONDS = 30.0

#: Variables of which each trial has its own values; a parent's modules must not depend on them.
OF_ONE_TRIAL = ("NNI_SYS_DIR", "NNI_OUTPUT_DIR", "NNI_CODE_DIR", "NNI_TRIAL_JOB_ID", "NNI_TRIAL_SEQ_ID",
                "NNI_TRIAL_SEED", "NNI_REPLICATE", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", MARK_VARIABLE,
                contract.ENV_WAKE, contract.ENV_CHECKPOINTS, "PWD", "OLDPWD", "MLFLOW_TRACKING_URI",
                "MLFLOW_TRACKING_TOKEN")


class WarmRequest:
    """What a parent is asked for."""

    def __init__(self, call: PythonCall, *, experiment: str, modules: Union[bool, Sequence[str]], directory: str,
                 environment: Mapping[str, str], for_trials: Optional[str], attempt_folder: str) -> None:
        """``environment``: the trial's, as its command would get it. ``modules``: True: learn them."""
        self.mark = environment[MARK_VARIABLE]
        for_trials = for_trials or ""
        is_of_attempt = for_trials.startswith(os.path.join(attempt_folder, ""))
        of_one_trial = [*OF_ONE_TRIAL, *filter(is_of_parameters, environment)]
        shared = {name: value for name, value in environment.items() if name not in of_one_trial}
        common = dict(shared)
        if is_of_attempt:
            common["PYTHONPATH"] = common["PYTHONPATH"][:-len(for_trials)]
        named = None if modules is True else list(modules or [])
        key = hashlib.sha256(json.dumps(
            [experiment, call.path, call.program, call.options, named, sorted(common.items())]).encode()).hexdigest()
        self._document = {
            "key": key, "experiment": experiment, "modules": named,
            "parent": {"path": call.path, "program": call.program, "options": call.options, "directory": directory,
                       # a mark of the same length, which is no trial's: processes of a trial write theirs over it
                       "environment": {**shared, MARK_VARIABLE: "0" * len(self.mark)},
                       "trial_variables": of_one_trial},
            "kind": call.kind, "target": call.target, "arguments": call.arguments, "words": call.words(),
            "directory": directory, "environment": dict(environment), "mark_variable": MARK_VARIABLE,
            "mark": self.mark, "for_trials": for_trials, "parents_for_trials": for_trials,
            "own_nni": "" if is_of_attempt else os.path.join(os.path.realpath(for_trials), "nni")}

    def write(self) -> int:
        """A descriptor of a file in memory that holds it."""
        descriptor = os.memfd_create("warm-request", os.MFD_CLOEXEC)
        data = memoryview(json.dumps(self._document).encode())
        while data:
            data = data[os.write(descriptor, data):]
        return descriptor


class WarmChild(ChildProcess):
    """The first process of a trial, forked by a parent that the agent has. Raises NotWarm where nothing was started:
    the trial can then be started plainly.
    """

    def __init__(self, agent_socket: str, request: WarmRequest, stdout: str, stderr: str,
                 wakeups: Wakeups, wait: Callable[[float], bool], clock: Callable[[], float]) -> None:
        """``wait`` so many seconds, or until something happens; False: the attempt is to end."""
        self.exit_code: Optional[int] = None
        self.signal: Optional[int] = None
        self.has_ended = False
        #: The process beside the trial has ended; and whether it was killed before nothing of the trial was left.
        self.is_alone = self.was_left = False
        #: The process beside the trial said that nothing of it is left.
        self.is_empty = False
        self.pid = 0
        self.start_time: Optional[str] = None
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wakeups = wakeups
        wakeups.listen(self.connection.fileno())
        try:
            self._ask(agent_socket, request, stdout, stderr)
            answer = self._answer(wait, clock)
            self.beside: int = answer["beside"]
            #: Of the parent: bytes, imported modules, and whether it has imported none because it learns them.
            self.memory, self.modules, self.learns = answer["memory"], answer["modules"], answer["learns"]
            self.connection.send(b"go", socket.MSG_NOSIGNAL)
        except OSError as error:
            self._hang_up()
            raise NotWarm("ended", str(error)) from error
        except BaseException:
            self._hang_up()
            raise
        self._read_pid()
        self.connection.setblocking(False)

    def reap(self) -> bool:
        """As of a child. Never blocks."""
        with contextlib.suppress(ChildProcessError):  # nvidia-smi, and what else the keeper itself starts
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        while not self.is_alone:
            try:
                packet = self.connection.recv(PACKET)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            if packet:
                self._note(json.loads(packet))
            else:
                self.is_alone = self.has_ended = True
                self.was_left = not self.is_empty
                self._hang_up()
        return self.has_ended

    @property
    def is_lost(self) -> bool:  # type: ignore[override]
        """Whether the process beside the trial was killed before it has seen the trial's end."""
        return self.was_left and self.exit_code is None and self.signal is None

    def _hang_up(self) -> None:
        self._wakeups.forget(self.connection.fileno())
        self.connection.close()

    def _ask(self, agent_socket: str, request: WarmRequest, stdout: str, stderr: str) -> None:
        self.connection.connect(agent_socket)
        descriptors = [request.write()]
        try:
            for path in (stdout, stderr):
                descriptors.append(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666))
            self.connection.sendmsg([b"start"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                                 struct.pack("%di" % len(descriptors), *descriptors))])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, wait: Callable[[float], bool], clock: Callable[[], float]) -> Dict[str, Any]:
        until = clock() + PATIENCE
        while not select.select([self.connection], [], [], 0)[0]:
            if clock() >= until:
                raise NotWarm("slow", "%g s" % PATIENCE)
            if not wait(1.0):
                raise NotWarm("not_wanted")
        packet = self.connection.recv(PACKET)
        answer: Dict[str, Any] = json.loads(packet) if packet else {"plain": {"cause": "ended", "detail": ""}}
        if "plain" in answer:
            raise NotWarm(**answer["plain"])
        return answer

    def _read_pid(self) -> None:
        """From here on it may run: whatever is not known now, it is not started plainly."""
        packet = b""
        if select.select([self.connection], [], [], _FORK_SECONDS)[0]:
            with contextlib.suppress(OSError):
                packet = self.connection.recv(PACKET)
        answer = json.loads(packet) if packet else {}
        if "plain" in answer:
            self._hang_up()
            raise NotWarm(**answer["plain"])
        self.pid = int(answer.get("pid") or 0)
        if self.pid:
            self.start_time = machine.process_start_time(self.pid)

    def _note(self, message: Dict[str, Any]) -> None:
        self.is_empty = self.is_empty or "empty" in message
        status = message.get("status")
        if status is None:
            return
        self.has_ended = True
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)


class WarmTree(ProcessTree):
    """The processes of such a trial: what descends from the process beside it. Where that was killed, those of the
    trial's session and with its mark.
    """

    def __init__(self, mark: str, child: WarmChild) -> None:
        super().__init__(mark, child.pid, child.start_time, own_children=False, reaps_orphans=False)
        self._child = child

    def is_empty(self) -> bool:
        """Whether nothing of the trial runs any more."""
        self._child.reap()
        return self._child.is_empty or not self.members()

    def members(self) -> List[int]:
        """As of other trees."""
        if self._child.was_left:
            return super().members()
        if self._child.is_empty:
            return []
        return sorted(descendants([self._child.beside], machine.process_table()))

    def members_for_readings(self) -> List[int]:
        """As of other trees."""
        if self._child.was_left or self._child.is_empty:
            return self.members()
        return machine.descendants_of(self._child.beside)
