"""A disk whose power can be cut: an ext4 file system in a file, stopped by the kernel as when the power fails.

    disk = CutDisk(folder); disk.mount()
    disk.cut(processes)       # what was not flushed is gone; the processes are killed at the same moment
    disk.mount()              # the journal of the file system is played back, as at a machine's start

Only root can do this. What the kernel writes to the disk's file is not cut off in the middle of a block.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from trainingservice.testing.processes import RunningProcess, end_processes

#: _IOR('X', 125, __u32) of Linux: stop the file system; flags 2: without writing its journal first.
EXT4_IOC_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
NO_LOG_FLUSH = 2
SIZE = 512 * 1024 * 1024
#: Seconds until what was killed has let go of the disk.
PATIENCE = 60.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class CutDisk:
    """One file system on a loop device of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disk"
        self.path.mkdir()
        image = folder / "disk.img"
        with open(image, "wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
        self._device = subprocess.run(["losetup", "--find", "--show", str(image)], check=True, text=True,
                                      capture_output=True).stdout.strip()

    def mount(self) -> None:
        # names are written only when somebody flushes, and not each five seconds: a test may take longer
        subprocess.run(["mount", "-o", "commit=300", self._device, str(self.path)], check=True)

    def cut(self, processes: Callable[[], list[RunningProcess]]) -> None:
        """Stop the processes, cut the power, kill them; the file system is not mounted any more then."""
        stopped: set[int] = set()
        while found := [process.pid for process in processes() if process.pid not in stopped]:
            for pid in found:
                _send(pid, signal.SIGSTOP)
                stopped.add(pid)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(folder)
        end_processes(processes())
        self.unmount()

    def unmount(self) -> None:
        """Wait until nobody uses it, then unmount it."""
        deadline = time.monotonic() + PATIENCE
        while os.path.ismount(self.path):
            done = subprocess.run(["umount", str(self.path)], capture_output=True, text=True, check=False)
            assert not done.returncode or time.monotonic() < deadline, done.stderr
            time.sleep(0.05)
        while self._is_in_use():  # mounted still in the name space of a process that has not quite ended
            assert time.monotonic() < deadline, f"somebody still uses {self._device}"
            time.sleep(0.05)

    def close(self) -> None:
        self.unmount()
        subprocess.run(["losetup", "--detach", self._device], check=True)

    def _is_in_use(self) -> bool:
        try:
            os.close(os.open(self._device, os.O_RDONLY | os.O_EXCL))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
            raise
        return False


def pretend_boot(boot_id: Path) -> None:
    """From now on this process, and those it starts, read the id of this start of the machine from a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000):  # CLONE_NEWNS: others keep what they see
        raise OSError(ctypes.get_errno(), "no name space of mounts can be made")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", str(boot_id), BOOT_ID], check=True)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
