"""Real podman in namespaces of its own: its images, containers and networks are seen there only, and end with it.

    with ContainerEngine() as engine:
        engine.podman("run", "--rm", "localhost/an-image", "id")
        engine.in_network("curl", "-f", "http://10.89.0.2:8080/healthz")

Root only. The namespaces have no way out: images are built from what lies on this machine. Control groups are left out,
because many machines of tests do not have them for others; so are limits above those of this process.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from tests.fakes.ssh_machine import needs_root

#: Programs, and the Debian packages that bring them.
NEEDED = {"podman": "podman", "crun": "crun", "unshare": "util-linux", "ip": "iproute2", "iptables": "iptables",
          "curl": "curl"}
#: Seconds for one command; a build installs a hundred packages.
PATIENCE = 1200.0
#: What the first process of the namespaces does: a view of control groups that crun understands (it refuses the mixture
#: of both versions), and a network with loopback. It ends, and with it all others, when its stdin is closed: also when
#: the test's process dies.
FIRST = """
umount --recursive /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup || exit 1
mount -t tmpfs none /run || exit 1
ip link set lo up && echo ready && exec cat
"""


def needs_podman() -> None:
    needs_root()
    for program, package in NEEDED.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            pytest.skip(f"no {program} was found: apt-get install {package}")


class ContainerEngine:
    """``close`` ends all containers and removes the images."""

    def __init__(self) -> None:
        needs_podman()
        # short, because of the sockets in it
        self.folder = Path(tempfile.mkdtemp(prefix="nniweb-containers-", dir="/var/tmp"))
        self._write_settings()
        self._outer = subprocess.Popen(["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
                                        "--mount-proc", "--kill-child", "sh", "-c", FIRST], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != "ready\n":
            said = self._outer.communicate()[1].strip().splitlines()
            shutil.rmtree(self.folder, ignore_errors=True)
            pytest.skip(f"containers cannot be run here: {said[-1] if said else 'no namespaces can be made'}")
        [first] = psutil.Process(self._outer.pid).children()
        self._enter = ["nsenter", f"--target={first.pid}", "--mount", "--net", "--pid", "--ipc", "--uts"]

    def _write_settings(self) -> None:
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.folder}/images"\nrunroot = "{self.folder}/run"\n')
        limits = [f'"{name}={hard}:{hard}"' for name, hard in (
            ("nofile", resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
            ("nproc", resource.getrlimit(resource.RLIMIT_NPROC)[1])) if hard != resource.RLIM_INFINITY]
        (self.folder / "containers.conf").write_text(
            f'[containers]\ncgroups = "disabled"\ndefault_ulimits = [{", ".join(limits)}]\nlog_driver = "k8s-file"\n'
            f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nruntime = "crun"\n'
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{self.folder}/networks"\n')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._outer.communicate()  # closes its stdin
        # what is mounted there was mounted in the namespace, and has gone with it
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- commands --------------------------------------------------------------------------

    def in_network(self, *command: str | Path, check: bool = True, patience: float = PATIENCE,
                   more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine where the containers are, in the topmost folder. ``more``: variables."""
        environment = {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin", "HOME": str(self.folder),
                       "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
                       "CONTAINERS_CONF": str(self.folder / "containers.conf"), **(more or {})}
        done = subprocess.run([*self._enter, *map(str, command)], cwd=self.folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=patience, check=False)
        assert not check or done.returncode == 0, (f"{' '.join(map(str, command))[:500]}: {done.returncode}\n"
                                                   f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def podman(self, *arguments: str | Path, check: bool = True, patience: float = PATIENCE
               ) -> subprocess.CompletedProcess[str]:
        return self.in_network("podman", *arguments, check=check, patience=patience)

    def inspect(self, kind: str, name: str) -> dict[str, Any]:
        """Of an ``image`` or a ``container``."""
        [found] = json.loads(self.podman(kind, "inspect", name).stdout)
        return dict(found)

    def get(self, url: str, headers: Sequence[str] = (), authority: Path | None = None) -> tuple[int, str]:
        """Status and body of an answer to GET, asked from outside of the containers; (0, the problem) without one.
        ``authority``: the PEM file that is trusted.
        """
        asked = self.in_network("curl", "--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}",
                                *[part for header in headers for part in ("--header", header)],
                                *(["--cacert", authority] if authority else []), url, check=False)
        if asked.returncode:
            return 0, asked.stderr
        body, _, status = asked.stdout.rpartition("\n")
        return int(status), body

    def logs(self, container: str) -> str:
        done = self.podman("logs", container, check=False)
        return done.stdout + done.stderr

    # --- images ----------------------------------------------------------------------------

    def import_tree(self, archive: Path, *names: str) -> None:
        """An image of one layer from a tar with a root file system, under each of the names."""
        first, *others = names
        self.podman("import", archive, first)
        for name in others:
            self.podman("tag", first, name)
