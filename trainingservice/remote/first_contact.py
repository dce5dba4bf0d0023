"""What is done once on each new connection: look at the machine, put the keeper there, start the agent.

One command tells all there is to know. It is sent to ``sh`` as its input, so that it does not matter
which shell the user has. Then SFTP brings the keeper, if the machine does not have this very one, and a
second command becomes the agent. Nothing is installed on the machine.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import shlex
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paramiko

from trainingservice.keeper.agent_client import AgentClient, FolderState
from trainingservice.keeper.keeper_bundle import KeeperBundle
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.ssh.connection import Connection, ended_after, is_broken
from trainingservice.ssh.problems import MachineProblem

#: Where everything of ours lies on a machine, unless the settings say otherwise.
DEFAULT_FOLDER = "~/.nniweb"
#: Seconds for the look, and for the agent's first line.
LOOK_TIMEOUT, HELLO_TIMEOUT = 30.0, 30.0
#: Where else a Python is looked for, after pythonPath and the PATH of a login shell.
OTHER_PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(16, 7, -1)), "/usr/local/bin/python3",
                 "/usr/bin/python3", "/opt/conda/bin/python3", "python")
#: The file in a cluster's folder that tells it from one made anew in its place.
_MARK = "made"
_FACTS, _TOO_OLD = "NNIWEB-FACTS ", "NNIWEB-TOO-OLD "

_LOOK = r"""
import sys
if sys.version_info < (3, 8):
    print("NNIWEB-TOO-OLD %s %s" % (sys.executable, sys.version.split()[0]))
    sys.exit(3)
import hashlib, json, os, time
folder, keeper, mark = os.path.expanduser(sys.argv[1]), sys.argv[2], sys.argv[3]
facts = {"python": sys.executable, "version": sys.version.split()[0], "folder": folder, "time": time.time(),
         "error": "", "home": os.path.expanduser("~"), "keeper": "", "free": None, "mark": ""}
try:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    probe = os.path.join(folder, ".probe-%d" % os.getpid())
    with open(probe, "wb") as stream:
        stream.write(b"x" * 65536)
    os.remove(probe)
except OSError as error:
    facts["error"] = "%s: %s" % (error.filename or folder, error.strerror)
    try:
        os.remove(probe)
    except (OSError, NameError):
        pass
if mark:
    mark = os.path.join(folder, mark)
    try:
        if not os.path.exists(mark):
            os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
            new = "%s.%d.part" % (mark, os.getpid())
            with open(new, "w") as stream:
                stream.write(os.urandom(16).hex())
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(new, mark)
            opened = os.open(os.path.dirname(mark), os.O_RDONLY)
            os.fsync(opened)
            os.close(opened)
        with open(mark) as stream:
            facts["mark"] = stream.read(64)
    except OSError:
        pass
try:
    with open(os.path.join(folder, "keepers", keeper), "rb") as stream:
        facts["keeper"] = hashlib.sha256(stream.read()).hexdigest()
except OSError:
    pass
there = folder
while not os.path.exists(there) and there != os.path.dirname(there):
    there = os.path.dirname(there)
try:
    status = os.statvfs(there)
    facts["free"] = status.f_bavail * status.f_frsize
except OSError:
    pass
print("NNIWEB-FACTS " + json.dumps(facts))
"""

_FIND_PYTHON = r"""
login_shell=/bin/sh
[ -x /bin/bash ] && login_shell=/bin/bash
of_login=$("$login_shell" -lc 'command -v python3' </dev/null 2>/dev/null | tail -n 1)
for candidate in @FIRST@ "$of_login" @OTHERS@; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -I -S -c @LOOK@ @FOLDER@ @KEEPER@ @MARK@ </dev/null && exit 0
done
exit 4
"""


@dataclass(frozen=True)
class MachineFacts:
    """What the first look showed. ``clock_ahead``: seconds the machine's clock is ahead of ours."""

    python: str
    version: str
    #: The folder for everything of ours, absolute.
    folder: str
    home: str
    #: Why nothing can be written there, "" where it can.
    error: str
    free_bytes: int | None
    #: Hash of the keeper that lies there under the expected name, "" for none.
    keeper: str
    clock_ahead: float
    #: What the folder that was asked about was marked with when it was made; "" where nobody asked, or it cannot be.
    mark: str = ""


def look_at(connection: Connection, settings: RemoteMachineSettings, keeper: KeeperBundle,
            clock: Callable[[], float], timeout: float = LOOK_TIMEOUT, marked: str = "") -> MachineFacts:
    """Find a Python and what it sees. Raises MachineProblem.

    ``marked``: a folder (relative to the working folder) that is given a mark, if it has none yet.
    """
    first = ""
    if settings.python_path is not None:
        folder = _shell_path(settings.python_path)
        first = f"{folder}/python3 {folder}/python"
    script = (_FIND_PYTHON.replace("@FIRST@", first).replace("@OTHERS@", " ".join(OTHER_PYTHONS))
              .replace("@LOOK@", shlex.quote(_LOOK))
              .replace("@FOLDER@", shlex.quote(settings.working_folder or DEFAULT_FOLDER))
              .replace("@KEEPER@", shlex.quote(keeper.path.name))
              .replace("@MARK@", shlex.quote(posixpath.join(marked, _MARK) if marked else "")))
    begin = clock()
    _, output, errors = connection.run("exec /bin/sh", script, timeout)
    end = clock()
    lines = output.splitlines()
    for line in reversed(lines):
        if line.startswith(_FACTS):
            facts: dict[str, Any] = json.loads(line[len(_FACTS):])
            return MachineFacts(facts["python"], facts["version"], facts["folder"], facts["home"], facts["error"],
                                facts["free"], facts["keeper"], facts["time"] - (begin + end) / 2, facts["mark"])
    old = sorted({" ".join(line.split()[1:]) for line in lines if line.startswith(_TOO_OLD)})
    if old:
        raise MachineProblem(f"{connection.name} has no Python 3.8 or newer, only {', '.join(old)}. Install python3, "
                             "or name the folder of another Python in pythonPath.", "interpreter", needs_person=True)
    said = (errors.strip() or output.strip())[-300:]
    raise MachineProblem(f"{connection.name} has no Python 3 on its PATH{f' (its output: {said})' if said else ''}. "
                         "Install python3, or name the folder of a Python in "
                         "pythonPath.", "interpreter", needs_person=True)


def put_keeper(connection: Connection, facts: MachineFacts, keeper: KeeperBundle) -> str:
    """Have the keeper on the machine; its path there. Raises MachineProblem."""
    path = posixpath.join(facts.folder, "keepers", keeper.path.name)
    if facts.keeper != keeper.sha256:
        put_file(connection, path, keeper.path.read_bytes())
    return path


def put_file(connection: Connection, path: str, content: bytes) -> None:
    """Write a file as a whole, with its folder. Raises MachineProblem."""
    partial = f"{path}.{uuid.uuid4().hex[:8]}.part"
    with connection.sftp() as sftp:
        try:
            make_folders(sftp, posixpath.dirname(path))
            try:
                with sftp.open(partial, "wb") as stream:
                    stream.set_pipelined(True)
                    stream.write(content)
                if sftp.stat(partial).st_size != len(content):
                    raise OSError("fewer bytes arrived than were sent; the disk may be full")
                sftp.posix_rename(partial, path)
            except OSError:
                _remove_if_there(sftp, partial)
                raise
        except OSError as error:
            if is_broken(error):
                raise
            raise MachineProblem(cannot_write(connection.name, path, error), "folder") from error


def cannot_write(name: str, path: str, error: OSError) -> str:
    """The sentence for a file that could not be written on a machine."""
    reason = error.strerror or str(error) or type(error).__name__
    if reason == "Failure":  # all that SFTP has to say, for instance, when the disk is full
        reason = "the machine gives no reason; often the disk is full"
    return (f"{path} cannot be written on {name} ({reason}). Free disk space, correct the permissions, or choose "
            "another workingFolder.")


def make_folders(sftp: paramiko.SFTPClient, folder: str) -> None:
    """Make a folder and its parents, for the user alone."""
    try:
        sftp.stat(folder)
        return
    except FileNotFoundError:
        pass
    if folder not in ("", "/"):
        make_folders(sftp, posixpath.dirname(folder))
        try:
            sftp.mkdir(folder, 0o700)
        except OSError:
            sftp.stat(folder)  # somebody else has just made it; otherwise this says why not


def _remove_if_there(sftp: paramiko.SFTPClient, path: str) -> None:
    try:
        sftp.remove(path)
    except OSError:
        return


class _ChannelReader:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._stream = channel.makefile("rb", 256 * 1024)

    def readline(self, most: int, /) -> bytes:
        line = self._stream.readline(most)
        return line if isinstance(line, bytes) else line.encode()


class _ChannelWriter:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def write(self, data: bytes, /) -> None:
        try:
            self._channel.sendall(data)
        except (EOFError, paramiko.SSHException) as error:  # so paramiko says it sometimes; files raise OSError
            raise BrokenPipeError(f"the connection is gone ({error or type(error).__name__})") from error

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):  # the connection is gone already
            self._channel.close()


def start_agent(connection: Connection, facts: MachineFacts, keeper_path: str, *,
                on_event: Callable[[str, FolderState], None], on_closed: Callable[[], None],
                on_relay: Callable[[dict[str, Any]], None] | None = None) -> AgentClient:
    """An agent that has said hello, on a channel of its own. Raises MachineProblem, AgentGone.

    It is started by a login shell, so that trials see what the user's profile sets.
    """
    log = posixpath.join(facts.folder, "agent.log")
    become_agent = f"exec {shlex.quote(facts.python)} -I -S {shlex.quote(keeper_path)} agent 2>>{shlex.quote(log)}"
    command = (f"if [ -x /bin/bash ]; then exec /bin/bash -lc {shlex.quote(become_agent)}; "
               f"else exec /bin/sh -lc {shlex.quote(become_agent)}; fi")
    channel = connection.channel(HELLO_TIMEOUT)
    try:
        with ended_after(channel, HELLO_TIMEOUT):
            channel.exec_command(f"exec /bin/sh -c {shlex.quote(command)}")
    except (paramiko.SSHException, OSError, EOFError) as error:
        channel.close()
        raise MachineProblem(f"The agent on {connection.name} could not be started: {error}.") from error
    client = AgentClient(_ChannelReader(channel), _ChannelWriter(channel), on_event=on_event, on_closed=on_closed,
                         on_relay=on_relay, name=f"on {connection.name}")
    try:
        client.hello(HELLO_TIMEOUT)
    except BaseException:
        client.close()
        raise
    return client


def _shell_path(path: str) -> str:
    """A path for a shell, in which ~/ still means the home folder."""
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)
