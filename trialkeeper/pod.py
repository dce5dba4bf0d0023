"""``keeper.pyz pod``: keeps the attempt of a pod, one process in one container.

Beside what ``run`` does: the job is taken from a mounted file, the number of the replica from the pod's
environment; the trial's output goes to the container's log, too; how the trial ended is left as the
container's termination message, where the cluster shows it. Where the pod cannot call the server
(no addresses), the journal goes to the container's log as marked lines.
"""

import base64
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional

from trialkeeper import contract
from trialkeeper.attempt_folder import default_folder, make_private_folder, read_object, write_file
from trialkeeper.folder_reader import open_plain
from trialkeeper.journal import without_position
from trialkeeper.shortage import is_shortage
from trialkeeper.starting_threads import pause_after
from trialkeeper.whole_number import whole_number

#: File with what this role runs (JobDocument). An archive's relative path is below ENV_STORAGE.
ENV_JOB_FILE = "NNI_KEEPER_POD_JOB"
ENV_STORAGE = "NNI_KEEPER_POD_STORAGE"
#: Number of the first replica of this role; 0 for the role that reports.
ENV_FIRST_REPLICA = "NNI_KEEPER_POD_FIRST_REPLICA"
#: Name of the pod, where the operator ends it in the replica's index.
ENV_POD_NAME = "NNI_KEEPER_POD_NAME"
#: Where the cluster reads the termination message.
ENV_END_FILE = "NNI_KEEPER_POD_END_FILE"
#: Seconds to stay after the end, so that the container's log can be read.
ENV_LINGER = "NNI_KEEPER_POD_LINGER"
#: The same where the trial was stopped: then the cluster removes the pod, and with it the log, as soon as it has ended.
ENV_LINGER_STOPPED = "NNI_KEEPER_POD_LINGER_STOPPED"
#: Variables in which controllers tell a replica's index.
INDEX_VARIABLES = ("FC_TASK_INDEX", "JOB_COMPLETION_INDEX", "ADAPTDL_REPLICA_RANK")

#: A line of the container's log that begins so carries a line of the journal, as base64 of JSON.
MARK = "@nniweb-journal "
#: Kubernetes takes so many bytes of a termination message.
MOST_OF_END = 4096
#: Seconds between two looks at the files.
LOOK_EVERY = 0.3
#: Bytes read from one file in one go.
_PIECE = 256 * 1024


def run_pod(environment: Mapping[str, str], run: Callable[[Mapping[str, str]], int]) -> int:
    """Exit status of the container. ``run`` keeps the attempt that an environment describes."""
    job_name = environment.get(contract.ENV_JOB, "")
    replica = replica_number(environment)
    try:
        folder = environment.get(contract.ENV_FOLDER) or default_folder(job_name)
        make_private_folder(folder)
        take_job(environment, folder)
        if replica == 0 and environment.get(contract.ENV_LASTING):
            _take_up_journal(environment[contract.ENV_LASTING], folder)
        end_file = environment.get(ENV_END_FILE, "")
    except OSError as error:
        sys.stderr.write("keeper: the folder %s cannot be used: %s\n" % (error.filename, error))
        return 2
    tells_journal = replica == 0 and not environment.get(contract.ENV_URLS)
    log = ContainerLog(folder, tells_journal)
    log.start()
    status = run({**environment, contract.ENV_FOLDER: folder, contract.ENV_REPLICA: str(replica)})
    log.finish()
    if end_file:
        _leave_end(folder, end_file)
    end = read_object(os.path.join(folder, contract.EXIT_FILE)) or {}
    was_stopped = end.get("reason") == contract.STOPPED
    linger = environment.get(ENV_LINGER, "") or (environment.get(ENV_LINGER_STOPPED, "") if was_stopped else "")
    seconds = whole_number(linger)
    if tells_journal and seconds is not None:
        _wait(seconds)
    return status


def _wait(seconds: int) -> None:
    """Stay, unless the cluster ends the pod."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    ended.wait(seconds)


def replica_number(environment: Mapping[str, str]) -> int:
    """0 for the one replica that reports, another number for each other."""
    index = next((number for name in INDEX_VARIABLES
                  if (number := whole_number(environment.get(name, ""))) is not None), None)
    if index is None:
        index = whole_number(environment.get(ENV_POD_NAME, "").rpartition("-")[2]) or 0
    return index + (whole_number(environment.get(ENV_FIRST_REPLICA, "0")) or 0)


def take_job(environment: Mapping[str, str], folder: str) -> None:
    """Have the mounted job in the attempt's folder. Raises OSError."""
    target = os.path.join(folder, contract.JOB_FILE)
    job = read_object(environment.get(ENV_JOB_FILE, "")) if environment.get(ENV_JOB_FILE) else None
    if job is None or os.path.exists(target):
        return
    code = job.get("code")
    if isinstance(code, dict) and code.get("archive"):
        code["archive"] = os.path.join(environment.get(ENV_STORAGE, ""), code["archive"])
    if isinstance(code, dict) and code.get("folder"):
        code["folder"] = os.path.normpath(os.path.join(os.getcwd(), code["folder"]))  # one of the image
    write_file(target, json.dumps(job))


def _take_up_journal(lasting: str, folder: str) -> None:
    """Have the journal in the folder that outlives the container. Raises OSError where nothing can be written there."""
    journal, link = os.path.join(lasting, contract.JOURNAL_FILE), os.path.join(folder, contract.JOURNAL_FILE)
    make_private_folder(lasting)
    os.close(os.open(journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
    if not os.path.lexists(link):
        os.symlink(journal, link)


def _leave_end(folder: str, end_file: str) -> None:
    end: Optional[Dict[str, Any]] = read_object(os.path.join(folder, contract.EXIT_FILE))
    if end is None:
        return
    text = json.dumps(end)
    if len(text) > MOST_OF_END:
        text = json.dumps({**end, "message": str(end.get("message") or "")[:1000]})
    try:
        with open(end_file, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        sys.stderr.write("keeper: the termination message cannot be written: %s\n" % error)


class ContainerLog:
    """Copies the trial's output, and if wanted the journal, to the container's log. A thread of its own."""

    def __init__(self, folder: str, tells_journal: bool) -> None:
        self._folder, self._tells_journal = folder, tells_journal
        self._offsets: Dict[str, int] = {}
        #: The journal's first line, which names it.
        self._header = b""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="container log", daemon=True)

    def start(self) -> None:
        """Begin, also later, where the machine has no thread to spare now: nobody else would copy the output."""
        failures = 0
        while True:
            try:
                self._thread.start()
                return
            except (RuntimeError, MemoryError) as error:
                if not is_shortage(error):
                    raise
            time.sleep(pause_after(failures))
            failures += 1

    def finish(self) -> None:
        """Copy what is left; then the thread has ended."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            ending = self._ended.wait(LOOK_EVERY)
            try:
                while self._copy_pieces(ending) and ending:
                    pass
            except OSError:
                if ending:
                    return
            if ending:
                return

    def _copy_pieces(self, ending: bool) -> bool:
        """Whole lines; at the end also half ones. True if there was something."""
        found = False
        for name, stream in ((contract.STDOUT_FILE, sys.stdout), (contract.STDERR_FILE, sys.stderr)):
            piece = self._new(name) or (self._new(name, half_lines=True) if ending else b"")
            if piece:
                found = True
                stream.buffer.write(piece if piece.endswith(b"\n") else piece + b"\n")
                stream.buffer.flush()
        if self._tells_journal:
            lines = self._new(contract.JOURNAL_FILE).splitlines()
            if lines and self._header:
                lines.insert(0, self._header)  # again: where the log is rotated, its beginning is lost
            for line in lines:
                found = True
                text = base64.b64encode(without_position(line)).decode("ascii")
                sys.stdout.buffer.write((MARK + text + "\n").encode("ascii"))
            if lines:
                self._header = self._header or lines[0]
                sys.stdout.buffer.flush()
        return found

    def _new(self, name: str, half_lines: bool = False) -> bytes:
        offset = self._offsets.get(name, 0)
        is_journal = name == contract.JOURNAL_FILE
        try:
            with open_plain(os.path.join(self._folder, name)) as stream:
                stream.seek(offset)
                piece = stream.read(_PIECE)
                while piece and is_journal and b"\n" not in piece:  # a very long line, which comes whole
                    more = stream.read(_PIECE)
                    if not more:
                        break
                    piece += more
        except OSError:
            return b""
        end = piece.rfind(b"\n") + 1
        # output may have no line ends at all: a full piece without one is told as it is
        if not half_lines and (end or is_journal or len(piece) < _PIECE):
            piece = piece[:end]
        self._offsets[name] = offset + len(piece)
        return piece
