"""A parent of warm trials as the agent sees it: its process, its connection, and the folder with its program."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from typing import Any, Dict, List

from trialkeeper.whole_number import whole_number

#: Of the names of folders; the process id of the agent follows.
PREFIX = "nniweb-warm-"
#: The program of a parent, first the file that Python runs.
_PROGRAM = ("warm_parent.py", "warm_imports.py", "warm_beside.py", "warm_trial.py")


class WarmParentProcess:
    """A parent process, and what it has told."""

    def __init__(self, request: Dict[str, Any], folder: str, number: int) -> None:
        """Start it as the request of a keeper says. ``folder`` has the program. Raises OSError."""
        about = request["parent"]
        self.key, self.experiment = str(request["key"]), str(request["experiment"])
        #: For another parent in the place of this one.
        self.request = {name: request[name] for name in ("key", "experiment", "parent", "modules")}
        self._log = os.path.join(folder, "parent%d.log" % number)
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with open(self._log, "ab") as log:
                self.process = subprocess.Popen(
                    [about["program"], *about["options"], os.path.join(folder, _PROGRAM[0]), str(theirs.fileno())],
                    executable=about["path"], cwd=about["directory"], env=about["environment"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()],
                    start_new_session=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.connection.close()
            raise OSError(str(error)) from error
        finally:
            theirs.close()
        self.connection.setblocking(False)
        self.started_at = self.used_at = time.monotonic()
        self.is_ready = False
        #: Requests of which it has not said what became of them, and since when it has said nothing of any.
        self.unanswered, self.silent_since = 0, self.started_at
        self.memory = self.modules = 0

    def is_stuck(self, seconds: float) -> bool:
        """Whether it has imported its modules, and has let a request wait for so long."""
        return self.is_ready and self.unanswered > 0 and time.monotonic() - self.silent_since >= seconds

    def answered(self) -> None:
        """It has said what became of a request."""
        self.unanswered, self.silent_since = max(0, self.unanswered - 1), time.monotonic()

    def pass_on(self, descriptors: List[int]) -> None:
        """Hand it the descriptors of a request. Raises OSError."""
        self.connection.sendmsg([b"start"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                             struct.pack("%di" % len(descriptors), *descriptors))],
                                socket.MSG_NOSIGNAL)
        if not self.unanswered:
            self.silent_since = time.monotonic()
        self.unanswered += 1

    def last_words(self) -> str:
        """The last line that it wrote."""
        with contextlib.suppress(OSError), open(self._log, encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream.read()[-4000:].splitlines() if line.strip()]
            return lines[-1][:300] if lines else ""
        return ""


def lay_program(folder: str) -> None:
    """Raises OSError."""
    for name in _PROGRAM:
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(_source(name))


def _source(name: str) -> bytes:
    import pkgutil
    content = pkgutil.get_data("trialkeeper", name)
    if content is None:
        raise OSError("the keeper's program lacks %s" % name)
    return content


def remove_leftovers() -> None:
    """Folders of agents that were killed."""
    folder = tempfile.gettempdir()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            number = name[len(PREFIX):].partition("-")[0]
            path = os.path.join(folder, name)
            if (name.startswith(PREFIX) and whole_number(number) is not None and not os.path.isdir("/proc/" + number)
                    and os.lstat(path).st_uid == os.geteuid()):
                shutil.rmtree(path, ignore_errors=True)
