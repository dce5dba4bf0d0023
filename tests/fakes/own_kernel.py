"""A Linux kernel of the test's own, for what that of its machine lacks: control groups with limits of memory and CPUs.

    status, output = run_in_own_kernel(["python", "-m", "pytest", ...], tmp_path)

It is Debian's user-mode Linux, a kernel that is a program: it needs neither rights nor hardware for virtual machines.
Its files are those of this machine, and cannot be written to but below /tmp and /mnt. It has one processor, control
groups of version 2 with all controllers at /sys/fs/cgroup, a loopback of its own and no other network. A command runs
in no control group, as root.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

KERNEL = "linux.uml"
INIT = Path(__file__).with_name("own_kernel_init.sh")
#: Megabytes of memory of the kernel.
MEMORY = 640


def run_in_own_kernel(command: Sequence[str], folder: Path, patience: float, memory: int = MEMORY) -> tuple[int, str]:
    """Exit status and output of a command, which starts where this process is. It finds ``folder`` at /mnt. Skips the
    test where no such kernel starts.
    """
    if shutil.which(KERNEL) is None or platform.machine() != "x86_64":
        pytest.skip(f"no {KERNEL} was found: apt-get install user-mode-linux")
    (folder / "command.sh").write_text(shlex.join(command))
    with open(folder / "console", "wb") as console:
        # all of its processes are on one processor: each hands over to the next
        kernel = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), KERNEL,
             f"mem={memory}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "selinux=0",
             f"init={INIT}", f"results={folder}", f"start={os.getcwd()}", "con=null", "con0=null,fd:1"],
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(_folder_for(memory))})
        try:
            kernel.wait(patience)
        finally:
            _end(kernel)
    said = (folder / "console").read_text(errors="replace").strip()
    if not (folder / "began").exists():
        pytest.skip(f"no kernel of its own can be started here: {(said.splitlines() or ['it says nothing'])[-1]}")
    assert (folder / "status").exists(), f"the kernel ended before the command: {said[-3000:]}"
    return int((folder / "status").read_text()), (folder / "output").read_text(errors="replace")


def _folder_for(memory: int) -> Path:
    """For the file that is its memory."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and shutil.disk_usage(shared).free > 2 * memory * 2 ** 20 else Path("/var/tmp")


def _end(kernel: subprocess.Popen[bytes]) -> None:
    """With its processes, which are processes of this machine, too."""
    if kernel.poll() is None:
        first = psutil.Process(kernel.pid)
        for process in [*first.children(recursive=True), first]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    kernel.wait()
