"""Host keys: is the machine that answers the one that was meant?

In this order: the fingerprint in the settings or in the cluster's metadata; known_hosts of the server's
user and of the system; the key that was seen at first contact, kept in the service's own file (0600). A
machine met for the first time is trusted and its key remembered. As long as nothing better speaks for
it, its message shows the fingerprint. A key that differs is always refused.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import paramiko

from trainingservice.ssh.known_hosts import FoundKeys, keys_of
from trainingservice.ssh.problems import MachineProblem
from trialkeeper import attempt_folder

#: Where OpenSSH keeps what is known.
SYSTEM_FILES = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))


def fingerprint(key: paramiko.PKey) -> str:
    """As ``ssh-keygen -lf`` shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")


def host_name(host: str, port: int) -> str:
    """How known_hosts names a host."""
    return host if port == 22 else f"[{host}]:{port}"


class HostKeyStore:
    """What is known of host keys. One per service; any thread."""

    def __init__(self, file: Path, system_files: tuple[Path, ...] = SYSTEM_FILES) -> None:
        """``file``: keys seen at first contact; made when there is the first one."""
        self._file = file
        self._system_files = system_files
        self._demanded: dict[str, str] = {}
        self._lock = threading.Lock()

    def demand(self, fingerprints: Mapping[str, str]) -> None:
        """From now on these hosts (``host`` or ``host:port``) must show these fingerprints, whoever leads to them."""
        self._demanded = {name: text.rstrip("=") for name, text in fingerprints.items()}

    def demanded(self, names: Iterable[str]) -> str | None:
        """The fingerprint that is demanded of a host that may be called by any of these names."""
        return next((self._demanded[name] for name in names if name in self._demanded), None)

    def known(self, name: str) -> list[paramiko.PKey]:
        """The keys of the system's files, or of ours, less what is revoked. Raises MachineProblem."""
        revoked = {key.asbytes() for key in self._revoked(name)}
        known = self._of_system(name) or self._of_file(self._file, name).known
        return [key for key in known if key.asbytes() not in revoked]

    def check(self, name: str, key: paramiko.PKey, expected: str | None) -> str:
        """"" where the key is known, or a sentence where only a first contact speaks for it. Raises MachineProblem.

        ``expected``: the fingerprint that the settings demand.
        """
        shown = fingerprint(key)
        if any(other.asbytes() == key.asbytes() for other in self._revoked(name)):
            raise MachineProblem(f"The host key {shown} of {name} is marked @revoked in known_hosts, so nothing was "
                                 "sent to the machine. Give the machine another host key. If the mark is wrong, remove "
                                 "that line.",
                                 "host_key", needs_person=True)
        if expected is not None:
            if shown != expected:
                raise MachineProblem(_changed(name, expected, shown, "hostKey (or host_keys) in the settings"),
                                     "host_key", needs_person=True)
            return ""
        known = self._of_system(name)
        where = "known_hosts"
        if not known:
            known, where = self._of_file(self._file, name).known, f"what was seen at first contact ({self._file})"
        if not known:
            self._remember(name, key)
            return (f"The host key {shown} of {name} was not known and is trusted from now on. Compare it with the "
                    "output of ssh-keygen -lf on the machine.")
        if any(other.asbytes() == key.asbytes() for other in known):
            return "" if where == "known_hosts" else (
                f"The host key {shown} of {name} is trusted because it was seen at first contact. Compare it with the "
                "output of ssh-keygen -lf on the machine, then set it as hostKey.")
        raise MachineProblem(_changed(name, ", ".join(sorted(map(fingerprint, known))), shown, where),
                             "host_key", needs_person=True)

    def _of_system(self, name: str) -> list[paramiko.PKey]:
        for file in self._system_files:
            found = self._of_file(file.expanduser(), name).known
            if found:
                return found
        return []

    def _revoked(self, name: str) -> list[paramiko.PKey]:
        return [key for file in self._system_files for key in self._of_file(file.expanduser(), name).revoked]

    @staticmethod
    def _of_file(file: Path, name: str) -> FoundKeys:
        try:
            return keys_of(file, name)
        except OSError as error:
            raise MachineProblem(f"The known host keys in {file} cannot be read ({error.strerror}). Correct the file's "
                                 "permissions.",
                                 "host_key", needs_person=True) from error

    def _remember(self, name: str, key: paramiko.PKey) -> None:
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # another process of the server may remember another machine at this moment
            with self._lock, open(os.open(f"{self._file}.lock", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = self._file.read_text(errors="replace") if self._file.is_file() else ""
                if before and not before.endswith("\n"):  # it was cut off once
                    before += "\n"
                attempt_folder.write_file(str(self._file), before + line, durable=True, secret=True)
        except OSError as error:
            raise MachineProblem(f"The host key of {name} cannot be stored in {self._file} on the server "
                                 f"({error.strerror}), so nothing was sent to the machine. Free disk space, or correct "
                                 "the permissions there.",
                                 "host_key", needs_person=isinstance(error, PermissionError)) from error


def _changed(name: str, expected: str, shown: str, where: str) -> str:
    return (f"The host key of {name} is {shown}, but {where} says {expected}. Either the machine was reinstalled, or "
            "another machine answers in its place. Nothing was sent to it. Ask the machine's administrator. If the new "
            "key is correct, correct it there.")
