"""A trial whose command runs in a container: its start, what its end means, and that nothing of it stays."""

import os
import shutil
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from trialkeeper import contract, machine
from trialkeeper.child_process import CannotStart, ChildProcess
from trialkeeper.container_command import (
    BEGAN,
    EXIT_CODE,
    FOLDER,
    HOME,
    SCRIPT,
    CannotMount,
    container_name,
    engine_environment,
    environment_inside,
    gpus_inside,
    labels_of,
    mounts_of,
    run_command,
    start_script,
)
from trialkeeper.container_engine import devices_here, last_words, remove_container
from trialkeeper.folder_reader import open_plain_file
from trialkeeper.whole_number import whole_number

#: Bytes of stderr in which the engine's own last words are looked for; of an exit code with its line end.
_READ, _LONGEST_CODE = 8192, 16


class ContainerProcess(ChildProcess):
    """The engine's program, which stays as long as the container. Raises CannotStart, NoRoom."""

    def __init__(self, words: Sequence[str], environment: Dict[str, str], stdout: str, stderr: str, own: str,
                 engine: str) -> None:
        """``own``: the folder in which the script leaves its traces."""
        self._own, self._engine, self._stderr = own, engine, stderr
        #: Reason and sentence where the engine, and not the command, is why it ended.
        self.failure: Optional[Tuple[str, str]] = None
        #: The command ended by itself, and the engine has cleared up.
        self.is_clean = False
        super().__init__("", "/", environment, stdout, stderr, words=words)

    def reap(self) -> bool:
        """As of other processes; the exit code is then the command's."""
        was_there = self.has_ended
        if super().reap() and not was_there:
            self._judge()
        return self.has_ended

    def _judge(self) -> None:
        code = whole_number(_exit_code_in(self._own).strip())
        if code is not None and 0 <= code < 256:
            self.is_clean = self.exit_code == code
            self.exit_code, self.signal = code, None
            return
        began = os.path.exists(os.path.join(self._own, BEGAN))
        if self.exit_code is None or (began and self.exit_code not in (125, 126, 127)):
            return  # killed, from outside or for want of memory
        said = self._last_words()
        if began:
            self.failure = contract.LOST, "%s failed while the trial ran (exit code %d)%s" % (
                self._engine, self.exit_code, said)
        else:
            self.failure = contract.NOT_STARTED, "%s on %s could not start the container (exit code %d)%s" % (
                self._engine, machine.host(), self.exit_code, said)
        self.exit_code = None

    def _last_words(self) -> str:
        try:
            with open(self._stderr, "rb") as stream:
                stream.seek(max(0, os.path.getsize(self._stderr) - _READ))
                said = last_words(stream.read(_READ))
        except OSError:
            said = ""
        return ": " + said if said else ""


def _exit_code_in(own: str) -> str:
    """What the script has left; "" where there is nothing, or what the trial has put in its place."""
    try:
        with open(open_plain_file(own, EXIT_CODE), "rb") as stream:
            return stream.read(_LONGEST_CODE).decode("ascii", "replace")
    except OSError:
        return ""


class ContainerTrial:
    """One keeper's. ``start`` once or, where the trial could not be started, again; ``remove`` at the end."""

    def __init__(self, container: contract.ContainerDocument, folder: str, journal_id: str,
                 log: Callable[[str], None]) -> None:
        """``folder``: the attempt's."""
        self._container, self._folder, self._mark, self._log = container, folder, journal_id, log
        self._own = os.path.join(folder, FOLDER)
        self._child: Optional[ContainerProcess] = None
        self._devices = devices_here()

    def job_inside(self, job: contract.JobDocument) -> contract.JobDocument:
        """What the trial's variables are made of: nothing of the machine's own."""
        inside = job.copy()
        inside["path"] = []
        return inside

    def gpus_inside(self, gpus: Optional[List[str]]) -> Optional[List[str]]:
        """How the trial's GPUs are named inside; ``gpus``: how they are outside."""
        return gpus_inside(gpus, self._devices)

    def start(self, job: contract.JobDocument, command: str, environment: Mapping[str, str], *,
              working_directory: str, nni_folder: str, checkpoints: Optional[str], wake: Optional[str],
              for_trials: Optional[str], gpus: Optional[List[str]], stdout: str, stderr: str) -> ContainerProcess:
        """``environment``: all variables of the trial, made from ``job_inside``. ``gpus``: as CUDA names them outside.
        Raises CannotStart, NoRoom.
        """
        if not os.path.isdir(working_directory):
            raise CannotStart("the folder %s does not exist on %s; the command should run in it"
                              % (working_directory, machine.host()))
        given = job.get("environment") or {}
        limits = job.get("limits") or {}
        script = os.path.join(self._own, SCRIPT)
        try:
            self._write_script(script, start_script(
                command, environment_inside(environment, given, "PATH" in given), folder=self._folder,
                working_directory=working_directory, for_trials=for_trials))
            words = run_command(
                self._container, name=container_name(self._mark), mark=self._mark, labels=labels_of(job, self._mark),
                mounts=mounts_of(
                    self._folder, working_directory=working_directory, nni_folder=nni_folder, checkpoints=checkpoints,
                    wake=wake, for_trials=for_trials, further=self._handed_on()),
                script=script, user="%d:%d" % (os.geteuid(), os.getegid()), gpus=gpus,
                devices=self._devices, cpus=limits.get("cpu_number"), memory=limits.get("memory_bytes"),
                shared_memory=_shared_memory())
        except CannotMount as error:
            raise CannotStart(str(error)) from error
        except OSError as error:
            raise CannotStart("%s cannot be written: %s" % (script, error)) from error
        self._child = ContainerProcess(words, engine_environment(os.environ, self._mark), stdout, stderr, self._own,
                                       self._container["engine"])
        return self._child

    def _handed_on(self) -> List[str]:
        path = os.path.join(self._folder, contract.HANDED_ON_FOLDER)
        return [path] if os.path.isdir(path) else []

    def _write_script(self, path: str, text: str) -> None:
        shutil.rmtree(self._own, ignore_errors=True)
        os.makedirs(os.path.join(self._own, HOME), mode=0o700)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))

    def remove(self) -> None:
        """That nothing of the container stays, whoever started it."""
        if self._child is not None and self._child.is_clean:
            return
        why_not = remove_container(self._container, container_name(self._mark))
        if why_not:
            self._log("the container %s cannot be removed: %s" % (container_name(self._mark), why_not))


def _shared_memory() -> int:
    """As much as a trial without an image has; engines give little, and data loaders need much."""
    try:
        there = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return there.f_blocks * there.f_frsize


def container_of(job: Mapping[str, object]) -> Optional[contract.ContainerDocument]:
    """How the job's command runs in a container; None where it does not."""
    container = job.get("container")
    if not isinstance(container, dict) or not container.get("program"):
        return None
    return container  # type: ignore[return-value]


def remove_left_container(job: Mapping[str, object], journal_id: str) -> None:
    """Of an attempt that nobody finished."""
    container = container_of(job)
    if container is not None:
        remove_container(container, container_name(journal_id))

