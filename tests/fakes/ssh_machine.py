"""Machines behind a real OpenSSH server on loopback: each with its own port, keys, config, home folder and PATH.

    with SshMachine(folder) as machine:
        settings = machine.settings()          # as a config file's machineList has it, with the key it accepts

The server is Debian's openssh-server, started by the test and ended with it. Where the test runs as root, a machine
has a host name and a machine id of its own, so that several of them are several machines.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.testing.processes import since_boot

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
NO_SSHD = "no OpenSSH server: apt-get install openssh-server"
NOT_ROOT = "needs root: machines of their own, other users, small disks"
NO_NAMESPACES = "no network namespaces can be made here: apt-get install iproute2, and CAP_NET_ADMIN"
PATIENCE = 60.0


def needs_sshd() -> None:
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip(NO_SSHD)


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)


def new_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """A key pair; the private half is at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "ed25519" and not passphrase:  # of this kind each machine has two: made without a program, in no time
        key = Ed25519PrivateKey.generate()
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        Path(f"{path}.pub").write_bytes(public + b" test\n")
        return path
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True,
                   stdin=subprocess.DEVNULL)
    return path


def fingerprint_of(key: Path) -> str:
    """As ``ssh-keygen -lf`` has it."""
    content = base64.b64decode(Path(f"{key}.pub").read_text().split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


class PrivateNetwork:
    """A network namespace without a link to any other one. Root only; ``remove`` it."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        needs_root()
        self.name = f"nniweb-{os.getpid()}-{next(self._numbers)}"
        try:
            for command in (["netns", "add", self.name], ["-n", self.name, "link", "set", "lo", "up"]):
                subprocess.run(["ip", *command], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.remove()
            pytest.skip(NO_NAMESPACES)
        self.enter = ["ip", "netns", "exec", self.name]

    def remove(self) -> None:
        """Harmless where there is none."""
        if shutil.which("ip"):
            subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


class SshMachine:
    """One machine. ``start`` and ``stop`` are those of its sshd; ``crash`` also ends everything that runs there."""

    def __init__(self, folder: Path, name: str = "ada", *, lines: Iterable[str] = (),
                 host_keys: Iterable[str] = ("ed25519",), user: str | None = None, own_identity: bool = False,
                 own_network: bool = False, python: bool = True) -> None:
        """``lines`` go first into sshd_config; ``own_identity``: a host name and machine id of its own (root only);
        ``own_network``: a network namespace of its own, from which nothing here can be reached, but that can be
        reached from here (root only); ``python`` False: a machine without any.
        """
        needs_sshd()
        self.network = PrivateNetwork() if own_network else None
        self.folder, self.name, self.user = folder, name, user or getpass.getuser()
        self.home = folder / "home"
        self.programs = folder / "programs"
        self.key = folder / "key"
        self.authorized_keys = folder / "authorized_keys"
        self.log = folder / "sshd.log"
        self._lines, self._own_identity = list(lines), own_identity
        self._process: subprocess.Popen[bytes] | None = None
        self._made = since_boot()
        for made in (self.home, self.programs):
            made.mkdir(parents=True)
        new_key(self.key)
        self.authorized_keys.write_text(Path(f"{self.key}.pub").read_text())
        self.host_keys = [new_key(folder / f"host_{kind}", kind=kind) for kind in host_keys]
        self.port = free_port()
        # that of the tests first: it starts four times as fast where much is installed beside the other
        python_folders = f"{Path(sys.executable).parent}:{Path(sys.executable).resolve().parent}"
        path = f"{self.programs}:{python_folders}:/usr/local/bin:/usr/bin:/bin"
        self.variables = {"HOME": str(self.home), "PATH": path if python else str(self.programs)}
        # Debian's /etc/profile sets the PATH of login shells
        (self.home / ".profile").write_text(f'export PATH="{self.variables["PATH"]}"\n')
        if not python:
            for program in ("sh", "tail", "cat", "mkdir"):
                (self.programs / program).symlink_to(shutil.which(program) or f"/bin/{program}")

    def have_keeper(self) -> None:
        """Lay the keeper there, as an earlier connection of a server would have: sending it is half of what the first
        one costs.
        """
        keepers = self.home / ".nniweb" / "keepers"
        keepers.parent.mkdir(mode=0o700)
        keepers.mkdir(mode=0o700)
        build_keeper(keepers)

    # --- life ------------------------------------------------------------------------------

    def start(self) -> SshMachine:
        assert SSHD is not None
        config = self.folder / "sshd_config"
        variables = " ".join(f'{name}="{value}"' for name, value in self.variables.items())
        config.write_text("\n".join([
            *self._lines, f"Port {self.port}", f"ListenAddress {self.host}", f"PidFile {self.folder}/sshd.pid",
            f"AuthorizedKeysFile {self.authorized_keys}", "StrictModes no", "UsePAM no", "PermitRootLogin yes",
            "PasswordAuthentication no", "MaxStartups 100", "LogLevel VERBOSE", "Subsystem sftp internal-sftp",
            f"SetEnv {variables}", *(f"HostKey {key}" for key in self.host_keys)]) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation wants it
        command = [SSHD, "-D" if self.network is None else "-i", "-e", "-f", str(config)]
        if self._own_identity:
            identity = self.folder / "machine-id"
            identity.write_text(f"{abs(hash(str(self.folder))):032x}"[:32] + "\n")
            script = (f'hostname {self.name}; [ -e /etc/machine-id ] && mount --bind "{identity}" /etc/machine-id; '
                      'exec "$@"')
            command = ["unshare", "--mount", "--uts", "sh", "-c", script, "sh", *command]
        if self.network is not None:
            command = [sys.executable, str(Path(__file__).with_name("sshd_by_connection.py")), str(self.port),
                       *self.network.enter, *command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, f"sshd ended by itself: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"sshd does not answer: {self.log.read_text()}"
            try:
                with socket.create_connection((self.host, self.port), 1):
                    return self
            except OSError:
                time.sleep(0.02)

    def stop(self) -> None:
        """End sshd and its sessions; what they started goes on."""
        process, self._process = self._process, None
        if process is None:
            return
        for pid in [*self.session_pids(), process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()

    def crash(self) -> None:
        """As when the power fails: sshd and everything that runs on the machine ends at once."""
        while pids := {*self.session_pids(), *self.pids_with(str(self.folder))}:
            for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody shall see the others go
                for pid in pids:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        continue
            if self._process is not None:
                self._process.wait()
                self._process = None
        if self.network is not None:
            self.network.remove()

    def __enter__(self) -> SshMachine:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- what runs there -------------------------------------------------------------------

    def session_pids(self) -> list[int]:
        """The processes of sshd for its sessions."""
        if self._process is None:
            return []
        below, found = {self._process.pid}, []
        table = _parents(self._made)
        while below:
            below = {pid for pid, parent in table.items() if parent in below}
            found += [pid for pid in below if _command(pid).startswith((b"sshd", b"/usr/sbin/sshd"))]
        return found

    def agent_pids(self) -> list[int]:
        """The agents of living connections (a keeper has its agent's command line, but another parent)."""
        table = _parents(self._made)
        return [pid for pid in self.pids_with(str(self.home))
                if _command(pid).endswith(b"\0agent\0") and _command(table.get(pid, 0)).startswith(b"sshd")]

    def pids_with(self, mark: str) -> list[int]:
        """Processes with this text in their command line or environment; nothing is older than the machine."""
        found = []
        for pid in _parents(self._made):
            try:
                text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in text and pid != os.getpid():
                found.append(pid)
        return found

    def accepted_logins(self) -> int:
        text = self.log.read_text(errors="replace")
        return text.count("Accepted publickey for") + text.count("Accepted password for")

    def attempts_to_log_in(self) -> int:
        """Connections that came as far as asking who is there."""
        return self.log.read_text(errors="replace").count("Connection from ")

    # --- how to reach it -------------------------------------------------------------------

    host = "127.0.0.1"

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.host_keys[0])

    def in_config(self, **more: Any) -> dict[str, Any]:
        """Its entry in the ``machineList`` of a configuration file."""
        return {"host": self.host, "port": self.port, "user": self.user, "hostKey": self.fingerprint,
                "sshKeyFile": str(self.key), **more}

    def settings(self, **more: Any) -> RemoteMachineSettings:
        """Settings that work; ``more`` changes some (None takes one out)."""
        fields: dict[str, Any] = {**self._login, **more}
        return RemoteMachineSettings(**{name: value for name, value in fields.items() if value is not None})

    def login(self) -> SshLoginSettings:
        """How to log in, for platforms that only log in."""
        return SshLoginSettings(**self._login)

    @property
    def _login(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port, "user": self.user, "ssh_key_file": self.key,
                "host_key": self.fingerprint}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parents(since: float) -> dict[int, int]:
    """Process -> its parent, of those that began after ``since`` (``since_boot``): most of a machine's are older."""
    first_tick = int(since * os.sysconf("SC_CLK_TCK"))
    table = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as stream:
                    stat = stream.readall()
            except OSError:
                continue
            fields = stat[stat.rindex(b")") + 2:].split()
            if int(fields[19]) >= first_tick:
                table[int(name)] = int(fields[1])
    return table


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
