"""A small Debian as a tar, made by mmdebstrap from Debian's packages: a base for images, where none can be fetched."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

#: Seconds for fetching and unpacking some two hundred packages.
PATIENCE = 900.0


def debian_tree(packages: Sequence[str], suite: str = "") -> Path:
    """The tar, with these packages and what they depend on. ``suite``: the release of Debian, such as trixie (default:
    this machine's own).

    It is made once for each list, in ~/.cache/nniweb-tests (or NNIWEB_TEST_CACHE). It names no package registry, so
    ``apt-get update`` asks nobody and packages that are in it can be "installed". Skips the test where it cannot be
    made. Root only.
    """
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no mmdebstrap was found: apt-get install mmdebstrap")
    suite = suite or platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    cache = Path(os.environ.get("NNIWEB_TEST_CACHE") or Path.home() / ".cache" / "nniweb-tests")
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(" ".join([suite, *packages]).encode()).hexdigest()[:12]
    archive = cache / f"debian-{suite}-{digest}.tar"
    with open(archive.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            unready = archive.with_suffix(".new.tar")
            try:
                done = subprocess.run(
                    ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}",
                     '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*',
                     "--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*",
                     "--dpkgopt=path-exclude=/usr/share/doc/*",
                     "--dpkgopt=path-exclude=/usr/share/locale/*", suite, str(unready)],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
            except subprocess.TimeoutExpired:
                pytest.skip(f"a Debian for images cannot be made: it took more than {PATIENCE:.0f} s")
            if done.returncode:
                unready.unlink(missing_ok=True)
                pytest.skip("a Debian for images cannot be made: "
                            f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}")
            unready.replace(archive)
    return archive
