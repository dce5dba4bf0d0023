"""A real Slurm on loopback: Debian's munged, slurmctld and slurmd, started by a test and ended with it.

    with SlurmCluster() as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))     # what Slurm's commands go by

The daemons run as root (munged as its own user), so only root can have them; they keep everything below one folder of
their own, which munged must be able to enter. The node claims more CPUs than this machine has: trials of tests sleep.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.fakes.real_service import RealService
from tests.fakes.slurm_accounts import SlurmAccounts
from tests.fakes.ssh_machine import free_port

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
NO_SLURM = "no Slurm: apt-get install slurmctld slurmd slurm-client munge"
NOT_ROOT = "needs root: Slurm's daemons"
PATIENCE = 60.0
#: Where control groups of the first version limit memory, the kind that Slurm can use without systemd.
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
#: The settings of a cluster that starts jobs at once and keeps no accounts; a test may change some.
_SETTINGS = {
    "ClusterName": "loopback", "AuthType": "auth/munge", "SlurmUser": "root", "SlurmdUser": "root",
    "ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none", "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1",
    "ReturnToService": "2", "KillWait": "30", "MinJobAge": "300", "MpiDefault": "none",
    "SlurmdParameters": "config_overrides",
}


def needs_slurm() -> None:
    if any(shutil.which(program, path=_PATH) is None for program in _PROGRAMS):
        pytest.skip(NO_SLURM)
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)


class SlurmCluster(RealService):
    """``start`` returns when the node takes jobs; ``stop`` ends the daemons and all jobs, and removes the folder."""

    def __init__(self, *, cpus: int = 64, nodes: int = 1,
                 partitions: Iterable[str] = ("PartitionName=main Default=YES",), node: str = "",
                 accounts: bool = False, memory_groups: bool = False, **settings: str) -> None:
        """``partitions``: lines of slurm.conf; ``node``: more about the node; ``settings``: other lines, by name.

        ``nodes``: so many slurmds, each in a UTS namespace in which the machine has the node's name.
        ``accounts``: with a slurmdbd, so that sacct knows jobs that the controller has forgotten.
        ``memory_groups``: jobs are in control groups, which keep them from using more memory than they asked for.
        """
        needs_slurm()
        self.folder = Path(tempfile.mkdtemp(prefix="nniweb-slurm-"))
        self.folder.chmod(0o711)
        self.config = self.folder / "slurm.conf"
        self.name = socket.gethostname().partition(".")[0]
        self.nodes = [self.name] if nodes == 1 else [f"node{number}" for number in range(1, nodes + 1)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        munge = self.folder / "munge"
        munge.mkdir(mode=0o711)
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        user = pwd.getpwnam("munge")
        for path in (munge, munge / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        for folder in ("state", "spool", "log"):
            (self.folder / folder).mkdir()
        self._accounts = SlurmAccounts(self.folder, munge / "socket", _PATH) if accounts else None
        if memory_groups:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\n")
            settings["TaskPlugin"] = "task/cgroup"
        lines = {**_SETTINGS, **(self._accounts.settings if self._accounts else {}),
                 "SlurmctldHost": f"{self.name}(127.0.0.1)", "SlurmctldPort": str(free_port()),
                 "SlurmdPort": str(free_port()), "AuthInfo": f"socket={munge / 'socket'}",
                 "StateSaveLocation": str(self.folder / "state"), "SlurmdSpoolDir": str(self.folder / "spool" / "%n"),
                 "SlurmctldPidFile": str(self.folder / "slurmctld.pid"),
                 "SlurmdPidFile": str(self.folder / "slurmd.%n.pid"),
                 "SlurmctldLogFile": str(self.folder / "log" / "slurmctld"),
                 "SlurmdLogFile": str(self.folder / "log" / "slurmd.%n"), **settings}
        self.config.write_text("\n".join([
            *(f"{name}={value}" for name, value in lines.items()),
            *(f"NodeName={name} NodeAddr=127.0.0.1 Port={free_port()} CPUs={cpus} RealMemory=100000 State=UNKNOWN "
              f"{node}" for name in self.nodes),
            *(f"{line} Nodes={','.join(self.nodes)} MaxTime=INFINITE State=UP" for line in partitions)]) + "\n")

    # --- life ------------------------------------------------------------------------------

    def start(self) -> Self:
        munge = self.folder / "munge"
        self._run("munged", "--foreground", f"--key-file={munge / 'key'}", f"--socket={munge / 'socket'}",
                  f"--pid-file={munge / 'pid'}", f"--log-file={munge / 'log'}", f"--seed-file={munge / 'seed'}",
                  user="munge")
        self.wait("munged listens", (munge / "socket").exists)
        if self._accounts is not None:
            self._accounts.start_database(self._run, self.wait)
            self.start_accounts()
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        self.wait("the nodes take jobs", lambda: set(self.command(  # a line for each partition of a node
            "sinfo", "-h", "-N", "-t", "idle", "-o", "%N", check=False).split()) == set(self.nodes))
        return self

    def start_node(self, name: str) -> None:
        if len(self.nodes) == 1:
            self._run("slurmd", "-D", key=name)
        else:
            self._run("unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh",
                      shutil.which("slurmd", path=_PATH) or "slurmd", "-D", key=name)

    def kill_node(self, name: str) -> None:
        """As when its power fails, but that its jobs' processes are to be ended by the test."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def start_controller(self) -> None:
        self._run("slurmctld", "-D")
        self.wait("the controller answers", lambda: " is UP" in self.command("scontrol", "ping", check=False))

    def stop_controller(self) -> None:
        self._end("slurmctld")

    def start_accounts(self) -> None:
        assert self._accounts is not None
        self._run("slurmdbd", "-D")

        def know_us() -> bool:
            self.command("sacctmgr", "-i", "add", "cluster", _SETTINGS["ClusterName"], check=False)
            return bool(self.command("sacctmgr", "-n", "list", "cluster", check=False))

        self.wait("the accounts know the cluster", know_us)

    def stop_accounts(self) -> None:
        self._end("slurmdbd")

    def freeze_controller(self) -> None:
        """It takes connections and what is sent, and answers nothing until ``thaw_controller``."""
        self._processes["slurmctld"].send_signal(signal.SIGSTOP)

    def thaw_controller(self) -> None:
        self._processes["slurmctld"].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        try:
            if "slurmctld" in self._processes:
                self.command("scancel", "--user=root", check=False)
                self.wait("all jobs have ended", lambda: not self.command("squeue", "-h", check=False).strip())
        finally:
            for name in reversed(list(self._processes)):
                self._end(name)
            shutil.rmtree(self.folder, ignore_errors=True)
            for group in (MEMORY_GROUPS / f"slurm_{name}" for name in self.nodes):
                for path, _, _ in os.walk(group, topdown=False):
                    os.rmdir(path)

    def _run(self, program: str, *arguments: str, key: str = "", **more: Any) -> None:
        path = shutil.which(program, path=_PATH)
        assert path is not None
        with (self.folder / "log" / f"{key or program}.out").open("ab") as log:
            self._processes[key or program] = subprocess.Popen(
                [path, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd="/", **more)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self, what: str, condition: Any, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"not true: {what} ({', '.join(ended)} ended)\n{self._logs()}")
            time.sleep(0.05)

    def _logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted((self.folder / "log").iterdir()))

    # --- what it is asked and told ---------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": _PATH, "SLURM_CONF": str(self.config), "HOME": os.environ.get("HOME", "/root")}

    def command(self, *command: str, check: bool = True) -> str:
        """What one of Slurm's commands printed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE)
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout

    def job_names(self) -> list[str]:
        """Names of jobs that have not ended."""
        return self.command("squeue", "-h", "-o", "%j").split()

    def job_id(self, name: str) -> str:
        """Of the job of that name, ended or not; "" where there is none."""
        return self.command("squeue", "-h", "--states=all", f"--name={name}", "-o", "%A").strip()

    def let_begin(self, job_id: str) -> None:
        """Have a job that Slurm queued again begin now, not after the two minutes that it lets such a job wait."""
        last_told = 0.0

        def begins() -> bool:
            nonlocal last_told
            state = self.command("squeue", "-h", f"--jobs={job_id}", "-o", "%T").strip()
            # before it is PENDING, what is said here would be forgotten; a job that begins in the second in which it
            # was queued again is ended, because that second's credentials are revoked
            if state == "PENDING" and time.monotonic() > last_told + 5:
                last_told = time.monotonic()
                self.command("scontrol", "update", f"jobid={job_id}", "starttime=now+2", check=False)
            return state == "RUNNING"

        self.wait(f"job {job_id} begins again", begins)
