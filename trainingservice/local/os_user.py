"""Another user of this machine as whom trials run (``runAs``): starts programs as that user, and lets them write files.

The server's process never touches what is in the user's folder by itself: each step is a program that runs as the
user, so a link that the user has put there leads nowhere the user could not go anyway. Where the server runs as root it
starts such a program itself; else through ``sudo -n -u USER``, which an administrator must have allowed without a
password.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainingservice import bounded_output
from trainingservice.bounded_output import Output
from trainingservice.errors import TemporaryError
from trainingservice.files.output_folder import PYTHON_CODE
from trainingservice.local.environment import OF_ENGINES, allowed_environment
from trainingservice.local.started_processes import end_marked, marked
from trainingservice.words.shown_value import shown

#: Variables that say where the things of the server's own user are, or what it may do.
_PERSONAL = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "DISPLAY", "PYTHONPATH",
                       "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "HF_HOME", "TORCH_HOME"}) | OF_ENGINES
#: How long one step as the user may take, in seconds: a home folder may be on a slow file server.
STEP_SECONDS = 30.0
#: How much one step may print: a piece of a file, or the list of a folder's files.
STEP_BYTES = 16 * 1024 * 1024

_PREPARE = """
umask 077
if [ -n "$2" ] && { [ -x "$2" ] || [ -r "$2" ]; }; then exit 81; fi
mkdir -p -- "$1" 2>/dev/null || exit 82
cd -- "$1" && [ -w . ] || exit 82
"""
_WRITE = """
umask 077
mkdir -p -- "${1%/*}" && cat > "$1.$$.new" && mv -f -- "$1.$$.new" "$1"
"""
#: The server's own Python where the user may use it, else the machine's.
_READ = 'if [ -x "$1" ]; then exec "$1" -I -S -c "$2"; fi; exec python3 -I -S -c "$2"'


def is_root() -> bool:
    """Whether this process may start programs as anybody."""
    return os.geteuid() == 0


class CannotRunAs(TemporaryError):
    """Nothing can be started as that user now; the sentence says what an administrator has to do."""

    of_the_cluster = False


@dataclass(frozen=True)
class OsUser:
    """A user of this machine who is neither root nor the server's own user. Methods may be called from any thread."""

    name: str
    user_id: int
    group_id: int
    home: Path
    shell: str

    def environment(self, source: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a trial of this user sees: the allowed part of the server's environment (default: this process's) less
        what is the server's own, with the user's HOME, USER, LOGNAME and SHELL. A proxy with a password in it is left
        out.
        """
        allowed = {name: value for name, value in allowed_environment(source).items()
                   if name not in _PERSONAL and not (name.lower().endswith("_proxy") and "@" in value)}
        return {**allowed, "HOME": str(self.home), "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}

    def start(self, command: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        """A process of this user, in a session of its own. ``more``: for Popen. Raises OSError."""
        if is_root():
            more |= {"user": self.user_id, "group": self.group_id,
                     "extra_groups": os.getgrouplist(self.name, self.group_id)}
        else:
            command = ["sudo", "-n", "-u", self.name, "--", *command]
        # of the environment sudo keeps what its rules say; a trial's own is in its job, never on a command line
        return subprocess.Popen(command, cwd="/", env=self.environment(), start_new_session=True, **more)

    def run(self, script: str, *arguments: str, content: bytes | Path = b"", seconds: float = STEP_SECONDS) -> bytes:
        """What a shell script that runs as the user prints. Raises CannotRunAs where it cannot be started or fails."""
        status, output, complaint = self._run(script, arguments, content, seconds)
        if status:
            raise CannotRunAs(f"A command as user {self.name} of this machine failed (exit status {status}): "
                              f"{complaint or 'it printed nothing'}")
        return output

    def ask(self, script: str, *arguments: str, seconds: float, most_bytes: int) -> bytes:
        """What a shell script that asks a program of the user's prints; b"" where it fails, takes longer or prints
        more. Whatever it started is ended. Raises CannotRunAs where it cannot be started.
        """
        mark = uuid.uuid4().hex
        process, said = self._communicate(marked(script, mark), arguments, b"", seconds, most_bytes)
        self._end(process, mark)
        return b"" if said.cut or process.returncode else said.output

    def run_python(self, content: bytes) -> bytes:
        """What the reader of folders (``output_folder.FolderElsewhere``) writes as the user. Raises CannotRunAs."""
        return self.run(_READ, sys.executable, PYTHON_CODE, content=content)

    def prepare(self, folder: Path, private: Path | None) -> None:
        """Make the user's folder for trials, after a look at whether the user is kept out of ``private``, the server's
        own folder. Raises CannotRunAs.
        """
        status, _, complaint = self._run(_PREPARE, (str(folder), str(private or "")), b"")
        if status == 81:
            raise CannotRunAs(f"User {self.name} can read {private}, which contains the server's keys and its "
                              f"database, so no trial is run as {self.name}. Make the folder private: chmod 700 "
                              f"{private}")
        if status == 82:
            raise CannotRunAs(f"User {self.name} cannot create the folder {folder} for trials. Give the user a home "
                              "folder that the user owns.")
        if status:
            raise CannotRunAs(self._no_way(complaint))

    def write_file(self, path: Path, content: bytes | Path) -> None:
        """Write a file (or copy the server's file that ``content`` names) as the user, for the user alone (0600);
        readers see it whole. Raises CannotRunAs.
        """
        self.run(_WRITE, str(path), content=content)

    def may_run_any(self, programs: Sequence[str]) -> bool:
        """Whether one of these paths is a program that the user may run. Raises CannotRunAs."""
        return self.run('for each in "$@"; do if [ -f "$each" ] && [ -x "$each" ]; then echo yes; fi; done',
                        *programs) != b""

    def has_file(self, path: Path) -> bool:
        """Whether there is such a file that the user can see. Raises CannotRunAs."""
        return self.run('if [ -f "$1" ]; then echo yes; fi', str(path)) != b""

    def remove(self, folder: Path) -> None:
        """Remove a tree as the user; harmless where it is not there. Raises CannotRunAs."""
        self.run('rm -rf -- "$1"', str(folder))

    def _run(self, script: str, arguments: Sequence[str], content: bytes | Path, seconds: float = STEP_SECONDS
             ) -> tuple[int, bytes, str]:
        mark = uuid.uuid4().hex
        process, said = self._communicate(marked(script, mark), arguments, content, seconds, STEP_BYTES)
        if said.cut:
            self._end(process, mark)
        if said.cut == "size":
            raise CannotRunAs(f"A command as user {self.name} printed more than {STEP_BYTES // 1024 ** 2} MB. Check "
                              "the programs sh, cat, ls and python3 on that user's PATH, and the number of files in "
                              "the folder.")
        if said.cut:
            raise CannotRunAs(f"A command as user {self.name} took longer than {seconds:.0f} s. Check whether the home "
                              "folder is on a file server that does not answer.")
        return process.returncode, said.output, said.complaint.decode("utf-8", "replace").strip()[-500:]

    def _communicate(self, script: str, arguments: Sequence[str], content: bytes | Path, seconds: float,
                     most_bytes: int) -> tuple[subprocess.Popen[bytes], Output]:
        copied, text = (content, b"") if isinstance(content, Path) else (None, content)
        try:
            with open(copied or os.devnull, "rb") as file:  # opened as the server, read by the program
                process = self.start(["/bin/sh", "-c", script, "sh", *arguments], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, stdin=file if copied else subprocess.PIPE)
        except OSError as error:
            raise CannotRunAs(self._no_way(str(error))) from error
        return process, bounded_output.communicate(process, text, seconds, most_bytes)

    def _end(self, process: subprocess.Popen[bytes], mark: str) -> None:
        """End a step and what it started."""
        if process.returncode is None:
            end(process)
        end_marked(mark, lambda command: self.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                    stderr=subprocess.DEVNULL))

    def _no_way(self, complaint: str) -> str:
        if is_root():
            return f"Nothing can be started as user {self.name}: {complaint}"
        own = pwd.getpwuid(os.geteuid()).pw_name
        return (f"sudo cannot start programs as user {self.name} ({complaint or 'it printed nothing'}). Allow it in "
                f"/etc/sudoers without a password: {own} ALL=({self.name}) NOPASSWD: ALL")


def find_os_user(name: str) -> OsUser:
    """The user of this machine. Raises CannotRunAs where there is none, or where trials must not run as that one."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise CannotRunAs(f"There is no user {shown(name)} on this machine. Correct runAs, or create the "
                          "user.") from None
    if found.pw_uid == 0:
        raise CannotRunAs("runAs must not name root, because a trial could then do anything on this machine.")
    if found.pw_uid == os.geteuid():
        raise CannotRunAs(f"{name} is the server's own user, so runAs would not separate trials from the server. Name "
                          "another user, or leave runAs out.")
    return OsUser(found.pw_name, found.pw_uid, found.pw_gid, Path(found.pw_dir), found.pw_shell or "/bin/sh")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that may belong to another user, and take its exit status where that worked."""
    try:
        process.kill()
    except PermissionError:
        return  # sudo is root's: it ends with what it started, whose input has ended
    process.wait()


#: What runs the keeper: the server's own Python where the user may use it, else the machine's.
_PYTHON = 'exec 2>>"$3"; if [ -x "$1" ]; then exec "$1" -I -S "$2" agent; fi; exec python3 -I -S "$2" agent'


def agent_command(python: str, bundle: Path, log: Path) -> list[str]:
    """The command of an agent that another user runs. ``log``: a file of that user's."""
    return ["/bin/sh", "-c", _PYTHON, "sh", python, str(bundle), str(log)]


_NAME = re.compile(r"[a-z0-9]{1,40}")


def names_in(user: OsUser, folder: Path) -> list[str]:
    """The folders of attempts in a folder of the user's; other names are not ours. Raises CannotRunAs."""
    listed = user.run('cd -- "$1" 2>/dev/null || exit 0; ls -1', str(folder)).decode("utf-8", "replace")
    return sorted(name for name in listed.splitlines() if _NAME.fullmatch(name))
