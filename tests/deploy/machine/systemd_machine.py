"""A machine with a real systemd as its first process: a Debian of its own, which systemd-nspawn boots.

    with SystemdMachine(tree, {}) as machine:
        machine.boot()
        machine.run("systemctl", "start", "nniweb")

The kernel is that of the machine of the tests; processes, users, files, mounts, control groups and network are the
machine's own. It has no network but its loopback. Root only. All of its processes end with the test's process.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil
import pytest

from tests.fakes.ssh_machine import needs_root
from tests.trialkeeper.keeper_run import wait_until

#: Programs, and the Debian packages that bring them.
NEEDED = {"systemd-nspawn": "systemd-container", "unshare": "util-linux", "nsenter": "util-linux",
          "setpriv": "util-linux"}
#: Seconds for the machine to boot, and for one command in it. A busy machine gives the tests a tenth of a processor.
PATIENCE, COMMAND_PATIENCE = 600.0, 900.0
#: What runs before systemd-nspawn, in namespaces of its own. It makes a view of control groups that systemd accepts
#: where there is the mixture of both versions, and a group that holds all of the machine.
BEFORE = """
umount --recursive /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup || exit 1
mount -t tmpfs none /run || exit 1
group="/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/$1"; shift
mkdir "$group" && echo 0 > "$group/cgroup.procs" && exec "$@"
"""
#: Removes that group, with all that systemd has made in it.
AFTER = """
umount --recursive /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup || exit 1
find "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/$1" -depth -type d -exec rmdir {} +
"""
VARIABLES = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
             "HOME": "/root"}


def needs_nspawn() -> None:
    needs_root()
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            pytest.skip(f"no {program} was found: apt-get install {package}")


class SystemdMachine:
    """``archive``: a tar with its files. ``shared``: folder of this machine -> where the machine has it, to read."""

    def __init__(self, archive: Path, shared: Mapping[Path, str]) -> None:
        needs_nspawn()
        self.folder = Path(tempfile.mkdtemp(prefix="nniweb-machine-", dir="/var/tmp"))
        #: The machine's topmost folder.
        self.tree = self.folder / "tree"
        self.tree.mkdir(mode=0o755)
        self._shared = dict(shared)
        self._outer: subprocess.Popen[bytes] | None = None
        self._enter: list[str] = []
        subprocess.run(["tar", "--extract", "--numeric-owner", f"--directory={self.tree}", f"--file={archive}"],
                       check=True, timeout=COMMAND_PATIENCE)
        (self.tree / "etc/hostname").write_text("nniweb-test\n")
        (self.tree / "etc/hosts").write_text("127.0.0.1 localhost nniweb-test\n::1 localhost\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def boot(self) -> None:
        """Returns when systemd has started all that is enabled. Skips the test where no such machine starts here."""
        shared = [f"--bind-ro={here}:{there}" for here, there in self._shared.items()]
        with open(self.folder / "console", "wb") as console:
            self._outer = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
                 "--mount-proc", "--kill-child", "sh", "-c", BEFORE, "sh", self.folder.name,
                 "systemd-nspawn", f"--directory={self.tree}", "--boot", "--register=no", "--keep-unit",
                 "--private-network", "--machine=nniweb-test", "--console=pipe", "--resolv-conf=off",
                 "--timezone=off", "--link-journal=no", *shared],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, cwd=self.folder, env=VARIABLES)
        wait_until(lambda: self._has_begun() or self._outer.poll() is not None, PATIENCE, "systemd runs")
        if self._outer.poll() is not None:
            said = self.console().strip().splitlines()
            pytest.skip(f"systemd cannot be booted here: {said[-1] if said else 'nothing was said'}")
        state = self.run("systemctl", "is-system-running", "--wait", check=False, patience=PATIENCE).stdout.strip()
        assert state == "running", f"{state}: {self.run('systemctl', '--failed', check=False).stdout}"

    def _has_begun(self) -> bool:
        """Whether commands can be given: systemd has made its socket."""
        assert self._outer is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._outer.pid).children(recursive=True):
                if process.name() == "systemd" and process.parent().name() == "systemd-nspawn":
                    self._enter = ["nsenter", f"--target={process.pid}", "--all", "--root", "--wd"]
                    return self.run("test", "-S", "/run/systemd/private", check=False).returncode == 0
        return False

    def console(self) -> str:
        return (self.folder / "console").read_text(errors="replace")

    def close(self) -> None:
        if self._outer is not None:
            with contextlib.suppress(ProcessLookupError):
                self._outer.kill()  # its child is killed with it, which is the first of all others
            self._outer.wait()
            wait_until(self._remove_group, PATIENCE, "the end of the machine's processes")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_group(self) -> bool:
        done = subprocess.run(["unshare", "--mount", "sh", "-c", AFTER, "sh", self.folder.name], check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, env=VARIABLES)
        return "Device or resource busy" not in done.stderr

    # --- commands --------------------------------------------------------------------------

    def run(self, *command: str, check: bool = True, patience: float = COMMAND_PATIENCE
            ) -> subprocess.CompletedProcess[str]:
        """Run a program in the machine, as root, in the topmost folder."""
        done = subprocess.run([*self._enter, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=patience, check=False, cwd="/", env=VARIABLES)
        assert not check or done.returncode == 0, (f"{' '.join(command)[:500]}: {done.returncode}\n"
                                                   f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def shell(self, script: str, *arguments: str, check: bool = True) -> str:
        """What a script of sh prints."""
        return self.run("sh", "-ec", script, "sh", *arguments, check=check).stdout

    def write(self, path: str, text: str, owner: str = "root") -> None:
        """A file in the machine, and the folder that it is in."""
        self.shell('mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"; chown "$3" "$(dirname "$1")" "$1"', path, text,
                   owner)
