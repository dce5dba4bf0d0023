"""Debian's podman with a store of the test's own, and an image made of a few programs of this machine."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

IMAGE = "localhost/nniweb-test:1"
_PROGRAMS = ("sh", "bash", "cat", "ls", "id", "sleep", "touch", "mkdir", "rm", "mv", "cp", "env", "date", "seq", "head",
             "tail", "grep", "sed", "true", "printf", "dd", "wc", "test", "stat", "ln", "chmod", "mkfifo", "tr",
             "sort", "cut", "basename", "dirname", "tee", "xargs", "find", "uname", "false", "nproc", "kill", "setsid")
_PYTHON = "/usr/bin/python3"
#: Limits that the containers get: the default ones of podman are more than a sandbox may give.
_CONTAINERS = """[containers]
default_ulimits = ["nofile=%d:%d", "nproc=30000:30000"]
[engine]
runtime = "%s"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE = '[storage]\ndriver = "%s"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n'


def _libraries(program: str) -> Iterator[str]:
    done = subprocess.run(["ldd", program], capture_output=True, text=True)
    yield from re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout)


def make_tree(folder: Path) -> None:
    """A root folder with shells, some programs and Debian's Python, out of this machine's files."""
    for name in ("tmp", "etc", "root", "proc", "sys", "dev", "run", "usr/bin", "usr/lib"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to("usr/bin" if name.endswith("bin") else "usr/lib")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    library = Path(f"/usr/lib/python{sysconfig.get_python_version()}")
    programs = [path for name in _PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin"))]
    modules = [str(path) for path in (library / "lib-dynload").glob("*.so")]
    for program in [*programs, _PYTHON]:
        shutil.copy(program, folder / "usr" / "bin" / Path(program).name)
    for needed in {path for program in [*programs, _PYTHON, *modules] for path in _libraries(program)}:
        # /lib and /lib64 are links to /usr/lib there
        target = folder / "usr" / needed.replace("/lib64/", "/lib/", 1).removeprefix("/usr").lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, target)
    shutil.copytree(library, folder / library.relative_to("/"), dirs_exist_ok=True, ignore=shutil.ignore_patterns(
        "__pycache__", "test", "idlelib", "tkinter", "lib2to3", "ensurepip", "config-*"))


class RealPodman:
    """One store, of root or of another user of this machine. ``folder`` is its own."""

    def __init__(self, folder: Path, user: pwd.struct_passwd | None = None) -> None:
        self.folder, self.user = folder, user
        program = shutil.which("podman")
        if program is None:
            pytest.skip("no podman was found: apt-get install podman")
        if os.geteuid() != 0:
            pytest.skip("needs root: machines of their own, other users, small disks")
        self.program = program
        of_conf = folder if user is None else Path(user.pw_dir) / ".config" / "containers"
        of_conf.mkdir(parents=True, exist_ok=True)
        files = _resource_limit()
        runtime = "runc" if shutil.which("runc") else "crun"
        (of_conf / "containers.conf").write_text(_CONTAINERS % (files, files, runtime))
        (of_conf / "storage.conf").write_text(_STORAGE % ("overlay" if user is None else "vfs", folder, folder))
        #: For whoever starts podman.
        self.variables = {} if user is not None else {
            "CONTAINERS_CONF": str(of_conf / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(of_conf / "storage.conf")}
        if user is not None:
            subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", str(folder), user.pw_dir], check=True)
        self._bring_image()

    def _bring_image(self) -> None:
        tree = self.folder / "tree"
        make_tree(tree)
        packed = subprocess.run(["tar", "-C", str(tree), "-c", "--owner=0", "--group=0", "."], check=True,
                                capture_output=True).stdout
        shutil.rmtree(tree)
        self.run("import", "--quiet", "-", IMAGE, content=packed)
        tried = self.run("run", "--rm", "--network", "host", IMAGE, "/usr/bin/python3", "-c", "print('here')",
                         check=False)
        if tried.stdout != b"here\n":
            said = tried.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
            pytest.skip(f"podman cannot run containers here: {said[-1]}")

    def run(self, *words: str, content: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Podman's answer to these words."""
        more: dict = {} if self.user is None else {
            "user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": [], "cwd": "/"}
        variables = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/") if self.user is None
                     else self.user.pw_dir, **self.variables}
        done = subprocess.run([self.program, *words], input=content, capture_output=True, env=variables, **more)
        assert not check or done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return done

    def containers(self, *filters: str) -> list[str]:
        """Names of all containers, ended ones too. ``filters``: such as ``label=...``."""
        asked: Sequence[str] = [word for one in filters for word in ("--filter", one)]
        return self.run("ps", "--all", "--format", "{{.Names}}", *asked).stdout.decode().split()

    def close(self) -> None:
        """End what is left, and give the store back."""
        self.run("rm", "--all", "--force", "--time", "0", check=False)
        self.run("rmi", "--all", "--force", check=False)


def _resource_limit() -> int:
    import resource
    return min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
