"""Installs the Debian packages that the tests use, where this machine is a Debian and this user may.

A package that cannot be installed is no failure: its tests skip themselves and say why. All in all it takes at most
``TIME_LIMIT`` seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

#: Seconds for everything together.
TIME_LIMIT = 600.0


def wanted(list_file: Path) -> list[str]:
    """Package names, one a line; what follows ``#`` is the reason."""
    lines = (line.split("#")[0].strip() for line in list_file.read_text().splitlines())
    return [line for line in lines if line]


def missing(packages: Sequence[str]) -> list[str]:
    """Those of ``packages`` that dpkg does not know as installed."""
    return [package for package in packages if not _is_installed(package)]


def install(list_file: Path, say: Callable[[str], None]) -> None:
    """Installs what is missing of ``list_file``, or says why it does not."""
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        say("Not a Debian or Ubuntu: tests that need a program which is not here are skipped.")
        return
    packages = missing(wanted(list_file))
    if not packages:
        return
    names = " ".join(packages)
    root = _as_root()
    if root is None:
        say(f"Not installed, for want of rights: {names}. Tests that need them are skipped.\n"
            f"To have them:  sudo apt-get install {names}")
        return
    say(f"Installing Debian packages: {names} ...")
    ends = time.monotonic() + TIME_LIMIT

    def apt_get(*arguments: str) -> None:
        subprocess.run([*root, "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", *arguments], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=max(1.0, ends - time.monotonic()))

    left = list(packages)
    try:
        apt_get("update")
        # together where this release has them all, else one by one
        for some in [packages, *([package] for package in packages)]:
            try:
                apt_get("install", "--yes", "--no-install-recommends", *some)
            except subprocess.CalledProcessError as refused:
                error: Exception = refused
            else:
                left = [package for package in left if package not in some]
            if not left:
                return
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
        error = failed
    say(f"apt-get failed ({error}). Tests that need {' '.join(left)} are skipped.")


def _is_installed(package: str) -> bool:
    answer = subprocess.run(["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
                            capture_output=True, text=True, check=False)
    return answer.returncode == 0 and answer.stdout == "installed"


def _as_root() -> list[str] | None:
    """What to put in front of a command so that it runs as root; None where that would take a password."""
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive"]
    if os.geteuid() == 0:
        return quiet
    if shutil.which("sudo") is None:
        return None
    without_password = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    return ["sudo", "-n", *quiet] if without_password else None
