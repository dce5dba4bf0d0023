"""A real OAR on loopback: Debian's server, its node behind an sshd and its database, which end with the test.

    with Oar() as oar:
        monkeypatch.setenv("PATH", f"{oar.programs}:{os.environ['PATH']}")     # oarsub, oarstat, oardel

OAR's programs have the places of their files built in. Therefore server, node and commands are in a mount namespace of
their own, in which ``/etc/oar`` and ``/var/lib/oar`` are folders of the test. ``programs`` has commands that enter it.
Only root can have that. The node has more cores than this machine: trials of tests sleep.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg
import pytest

from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.fakes.real_service import RealService
from tests.fakes.schedulers.daemons import PATH, Daemons, are_there
from tests.fakes.ssh_machine import free_port, new_key

_PROGRAMS = ("Almighty", "oarsub", "oarstat", "oardel", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "mount")
NO_OAR = "no OAR: apt-get install oar-server oar-server-pgsql oar-node oar-user oar-user-pgsql postgresql"
NOT_ROOT = "needs root: OAR's server and node"
NO_NAMESPACE = "no mount namespaces can be made here: CAP_SYS_ADMIN is missing"
#: What the test asks, beside what OAR's users call.
_COMMANDS = ("oarsub", "oarstat", "oardel", "oarhold", "oarresume")
_USER = "oar"
_TABLES = Path("/usr/lib/oar/database")
_CONFIGURATION = Path("/usr/share/oar/oar-common/oar.conf")
#: Columns that sites give their resources, and one that is a resource of its own: ``gpu``.
_PROPERTIES = {"host": "varchar(255)", "cpu": "integer", "core": "integer", "gpu": "integer", "memnode": "integer"}
_NODE = "localhost"


def needs_oar() -> None:
    if not are_there(*_PROGRAMS) or not _TABLES.is_dir():
        pytest.skip(NO_OAR)
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(NO_NAMESPACE)


class Oar(RealService):
    """``start`` returns when jobs are taken; ``stop`` ends all jobs and the daemons, and removes the folder."""

    def __init__(self, *, cores: int = 64, gpus: int = 8, memory: int = 100_000) -> None:
        """``cores`` are spread evenly over the ``gpus``; ``memory``: megabytes of the node."""
        needs_oar()
        self.folder = Path(tempfile.mkdtemp(prefix="nniweb-oar-"))
        self.folder.chmod(0o755)
        self.programs = self.folder / "programs"
        self._cores, self._gpus, self._memory = cores, gpus, memory
        self._database = PostgresqlServer()
        self._daemons = Daemons(self.folder, {})
        self.wait = self._daemons.wait
        self._user = pwd.getpwnam(_USER)
        self._port, self._ssh_port = free_port(), free_port()

    # --- life ------------------------------------------------------------------------------

    def start(self) -> Self:
        self._make_database()
        self._make_home()
        self._make_configuration()
        self._enter_namespace()
        self._daemons.run("sshd", "-D", "-e", "-f", "/etc/oar/sshd_config", inside=self._inside)
        self.start_server()
        return self

    def start_server(self) -> None:
        self._daemons.run("Almighty", inside=self._inside)
        self.wait("it runs a job", self._runs_a_job)

    def stop_server(self) -> None:
        self._daemons.end("Almighty")

    def stop(self) -> None:
        try:
            if ids := self._ids():
                self.command("oardel", *ids, check=False)
                self.wait("all jobs have ended", lambda: not self._ids())
        finally:
            self._daemons.end_all()
            self._database.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- what it is asked and told ---------------------------------------------------------

    def command(self, program: str, *arguments: str, check: bool = True) -> str:
        """What one of OAR's commands printed."""
        return self._daemons.command(str(self.programs / program), *arguments, check=check)

    def job_names(self) -> list[str]:
        """Names of jobs that have not ended."""
        return re.findall(r"^ +name = (\S+)", self.command("oarstat", "-f"), re.MULTILINE)

    def _ids(self) -> list[str]:
        return re.findall(r"^Job_Id: (\d+)", self.command("oarstat", "-f", check=False), re.MULTILINE)

    def _runs_a_job(self) -> bool:
        return "OAR_JOB_ID" in self.command("oarsub", "-O", "/dev/null", "-E", "/dev/null", "true", check=False)

    # --- what its packages and administrators do -------------------------------------------

    def _make_database(self) -> None:
        self._database.start()
        Path(self._socket_folder).chmod(0o711)  # OAR's user connects, too
        self._database.execute(f"CREATE ROLE {_USER} SUPERUSER LOGIN")
        self._database.execute(f"CREATE DATABASE {_USER} OWNER {_USER}")
        with psycopg.connect(host=self._socket_folder, user=_USER, dbname=_USER, autocommit=True) as connection:
            for name in ("pg_structure", "default_data", "pg_default_admission_rules"):
                connection.execute((_TABLES / f"{name}.sql").read_bytes())
            # tests run as root
            connection.execute(b"DELETE FROM admission_rules WHERE rule LIKE '%root and oar users%'")
            for name, kind in _PROPERTIES.items():
                connection.execute(f"ALTER TABLE resources ADD {name} {kind}".encode())
            connection.execute((
                "INSERT INTO resources (network_address, state, state_num, host, cpu, core, gpu, memnode) "
                f"SELECT '{_NODE}', 'Alive', 1, '{_NODE}', 1, n, 1 + (n - 1) * {self._gpus} / {self._cores}, "
                f"{self._memory} FROM generate_series(1, {self._cores}) AS n").encode())

    @property
    def _socket_folder(self) -> str:
        return self._database.socket_folder

    def _make_home(self) -> None:
        """Of the user ``oar``, who logs in to the node."""
        home = self.folder / "home"
        key = new_key(home / ".ssh" / "id_ed25519")
        (home / ".ssh" / "authorized_keys").write_text(f'environment="OAR_KEY=1" {Path(f"{key}.pub").read_text()}')
        (home / ".ssh" / "config").write_text("Host *\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
                                              "LogLevel ERROR\n")
        (home / ".bashrc").write_text("export PATH=/usr/lib/oar/oardodo:$PATH\n")
        for path in (home, *home.rglob("*")):
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _make_configuration(self) -> None:
        etc = self.folder / "etc"
        shutil.copytree("/etc/oar", etc)
        log = self._daemons.log / "oar"
        log.touch()
        os.chown(log, self._user.pw_uid, self._user.pw_gid)
        given = "\n".join(line for line in _CONFIGURATION.read_text().splitlines() if not re.match(
            "JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD|PINGCHECKER_", line))  # no cpusets; the node is there
        ours = {"DB_HOSTNAME": self._socket_folder, "DB_PORT": "5432", "DB_BASE_PASSWD": "none",
                "DB_BASE_LOGIN_RO": _USER, "DB_BASE_PASSWD_RO": "none", "SERVER_PORT": str(self._port),
                "LOG_FILE": str(log), "OPENSSH_CMD": f"/usr/bin/ssh -p {self._ssh_port} -e none",
                "PINGCHECKER_GENERIC_COMMAND": "/bin/true", "FINAUD_FREQUENCY": "0",
                "SCHEDULER_JOB_SECURITY_TIME": "1", "SCHEDULER_MIN_TIME_BETWEEN_2_CALLS": "1"}
        (etc / "oar.conf").write_text("\n".join([given, *(f'{name}="{value}"' for name, value in ours.items())]) + "\n")
        os.chown(etc / "oar.conf", self._user.pw_uid, self._user.pw_gid)
        host_key = new_key(etc / "host_key")
        (etc / "sshd_config").write_text(
            f"Port {self._ssh_port}\nListenAddress 127.0.0.1\nHostKey /etc/oar/{host_key.name}\nPidFile none\n"
            "PermitUserEnvironment yes\nAcceptEnv OAR_CPUSET OAR_USER_CPUSET OAR_USER_GPUDEVICE OAR_JOB_USER\n"
            f"AllowUsers {_USER}\nPasswordAuthentication no\nMaxStartups 1024\nUsePAM no\n")
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd demands it

    def _enter_namespace(self) -> None:
        """Commands in ``programs`` run where /etc/oar and /var/lib/oar are the test's."""
        ready = self.folder / "ready"
        mounts = [f"mount --bind {self.folder / ours} {theirs}"
                  for ours, theirs in (("etc", "/etc/oar"), ("home", "/var/lib/oar"))]
        self._daemons.run("unshare", "--mount", "sh", "-c", " && ".join(
            [*mounts, f"touch {ready}", "exec sleep infinity"]), key="namespace")
        self.wait("the namespace is there", ready.exists)
        self._inside = [shutil.which("nsenter") or "nsenter", f"--mount=/proc/{self._daemons.pid('namespace')}/ns/mnt"]
        self.programs.mkdir()
        for name in _COMMANDS:
            program = self.programs / name
            program.write_text(f'#!/bin/sh\nexec {" ".join(self._inside)} {shutil.which(name, path=PATH)} "$@"\n')
            program.chmod(0o755)
