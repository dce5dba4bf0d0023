"""Fetches code with git, as a guest who trusts nobody: the address was written by a person, the content by anybody.

* https and ssh only; redirects are not followed; a host with an address that is not public is refused (unless the
  settings allow it), and git is told to connect to the address that was checked.
* Of the machine's configuration nothing is read; no hooks, no filters, no submodules, no questions at a terminal.
* One commit without its history, so much and so long as the limits say. What is to be written is counted before.
* Links that lead out of the fetched folder are refused: what they point to would be the server's own.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nniweb.experiments.clusters.public_addresses import NotPublic, addresses_of
from nniweb.experiments.launch.git_source import GitSource
from trainingservice import bounded_output
from trialkeeper.whole_number import whole_number

MOST_ENTRIES = 20_000
#: Bytes of what git writes that are read: a few trees within each other can stand for any number of files.
MOST_LISTED = MOST_ENTRIES * 1024
#: Variables of the server that git and ssh are given: where programs are, the agent's keys, certificates to trust.
_HANDED_ON = ("PATH", "SSH_AUTH_SOCK", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR")
#: Files are written as they were committed: what git can make of them would be many times as much as was counted.
_ATTRIBUTES = "* -ident -text -working-tree-encoding\n"
_TELLING = re.compile(r"(?:fatal|error|remote|ssh|kex_exchange|host key|(?:.*: )?permission denied)", re.I)
_LONGEST_WORDS = 600


class FetchFailed(Exception):
    """The code cannot be had. The text is a sentence, with git's own words where it was git that failed."""


@dataclass(frozen=True)
class FetchLimits:
    """``bytes``: of what is sent and of what it comes to; ``seconds``: for all of it."""

    bytes: int
    seconds: float
    private_addresses: bool = False


@dataclass(frozen=True)
class FetchedCode:
    folder: Path
    #: The commit that ``ref`` was, 40 digits.
    commit: str


def fetch_code(source: GitSource, token: str, scratch: Path, limits: FetchLimits, stop: threading.Event) -> FetchedCode:
    """Fetch into ``scratch``, which is emptied first. Blocking; ends soon after ``stop`` is set. Raises FetchFailed."""
    shutil.rmtree(scratch, ignore_errors=True)
    work = scratch / "code"
    work.mkdir(parents=True)
    git = _Git(source, token, scratch, limits, stop)
    git.run("init", "--quiet", "--bare", "--template=", str(git.folder))
    attributes = git.folder / "info" / "attributes"  # counts for more than the repository's own
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text(_ATTRIBUTES)
    git.run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", git.url,
            source.ref or "HEAD")
    commit = git.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
    _count(git.run("ls-tree", "-r", "-l", "-z", commit, "--", *([f"{source.folder}/"] if source.folder else []),
                   too_much=f"The list of the repository's files has more than {MOST_LISTED // 10**6} MB. Name a "
                            "folder of it."),
           source, limits)
    git.run(f"--work-tree={work}", "checkout", "--quiet", commit, "--", source.folder or ".", cwd=work)
    folder = work / source.folder
    _refuse_links_that_leave(folder)
    shutil.rmtree(git.folder)
    return FetchedCode(folder, commit)


def _count(listing: str, source: GitSource, limits: FetchLimits) -> None:
    """Refuse before it is written what would be too much."""
    entries = [entry for entry in listing.split("\0") if entry]
    if not entries:
        raise FetchFailed(f"The repository has no folder {source.folder}." if source.folder
                          else "The repository contains no files.")
    if len(entries) > MOST_ENTRIES:
        raise FetchFailed(f"The repository contains {len(entries)} files; at most {MOST_ENTRIES} are fetched. Name a "
                          "folder of it.")
    sizes = [entry.split("\t", 1)[0].split()[3] for entry in entries]
    total = sum(whole_number(size) or 0 for size in sizes)  # a submodule has "-"
    if total > limits.bytes:
        raise FetchFailed(f"The files of the repository have {total // 10**6} MB in total; at most "
                          f"{limits.bytes // 10**6} MB are fetched. Name a folder of it, or store data outside of the "
                          "code.")


def _refuse_links_that_leave(folder: Path) -> None:
    root = Path(os.path.realpath(folder))
    if not root.is_dir() or folder.is_symlink():
        raise FetchFailed(f"{folder.name} in the repository is not a folder.")
    for path, folders, files in os.walk(root):
        for name in (*folders, *files):
            link = Path(path, name)
            if link.is_symlink() and not Path(os.path.realpath(link)).is_relative_to(root):
                raise FetchFailed(f"The link {link.relative_to(root)} in the repository points outside of the folder "
                                  "that is fetched. Replace it with the file itself.")


class _Git:
    """Runs git with one environment, within one span of time."""

    def __init__(self, source: GitSource, token: str, scratch: Path, limits: FetchLimits, stop: threading.Event
                 ) -> None:
        self.folder = scratch / "repository"
        self.url = source.url
        self._limits = limits
        self._stop = stop
        self._deadline = time.monotonic() + limits.seconds
        user, host, port = source.place
        self._secrets = [token] if token else []
        config = {"core.hooksPath": os.devnull, "http.followRedirects": "false", "http.proxy": "", "gc.auto": "0",
                  "fetch.unpackLimit": "1", "maintenance.auto": "false", "core.askPass": "", "core.fsmonitor": "false"}
        ssh = ""
        addresses = self._checked_addresses(host, port)
        if source.is_ssh:
            alias = host if port == 22 else f"[{host}]:{port}"
            # the person at the terminal is missing, so whatever ssh would ask is refused
            ssh = (f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20 -o HostName={addresses[0]} "
                   f"-o 'HostKeyAlias={alias}' -o ProxyCommand=none -o ProxyJump=none -o PermitLocalCommand=no "
                   "-o ForwardAgent=no -o ClearAllForwardings=yes")
        else:
            shown = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
            config["http.curloptResolve"] = f"{host}:{port}:{shown}"
            if token:
                basic = base64.b64encode(f"{user or 'git'}:{token}".encode()).decode()
                self._secrets.append(basic)
                config["http.extraHeader"] = f"Authorization: Basic {basic}"
                self.url = re.sub(r"^(https://)[^/@]*@", r"\1", self.url, flags=re.I)
        self._environment = {
            **{name: os.environ[name] for name in _HANDED_ON if name in os.environ},
            "HOME": str(scratch), "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "ssh" if source.is_ssh else "https",
            "GIT_LITERAL_PATHSPECS": "1", "GIT_SSH_VARIANT": "ssh", **({"GIT_SSH_COMMAND": ssh} if ssh else {}),
            # not on the command line, which every user of the machine can read
            "GIT_CONFIG_COUNT": str(len(config)),
            **{f"GIT_CONFIG_KEY_{index}": key for index, key in enumerate(config)},
            **{f"GIT_CONFIG_VALUE_{index}": value for index, value in enumerate(config.values())}}

    def _checked_addresses(self, host: str, port: int) -> list[str]:
        try:
            return addresses_of(host, port, also_private=self._limits.private_addresses,
                                allowed_by="NNIWEB_GIT_PRIVATE_ADDRESSES")
        except NotPublic as error:
            raise FetchFailed(str(error)) from None

    def run(self, *arguments: str, cwd: Path | None = None, too_much: str = "git writes too much.") -> str:
        """What git writes. Raises FetchFailed with what it complains; with ``too_much`` for more than MOST_LISTED."""
        own = [] if arguments[0] == "init" else [f"--git-dir={self.folder}"]
        # a file, the pack above all, ends at the limit; in units of 512 bytes
        command = ["sh", "-c", 'ulimit -f "$0"; exec git "$@"', str(self._limits.bytes // 512 + 1), *own, *arguments]
        try:
            process = subprocess.Popen(command, cwd=cwd or self.folder.parent, env=self._environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True)
        except OSError as error:
            raise FetchFailed(f"git cannot be started on the worker's host: {error.strerror}.") from error
        said = bounded_output.communicate(process, b"", self._deadline - time.monotonic(), MOST_LISTED,
                                          self._stop.is_set)
        if said.cut:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # git has children: the one that talks over the network
            process.wait()
            raise FetchFailed(too_much if said.cut == "size" else
                              f"The fetch did not finish within {self._limits.seconds:g} s (NNIWEB_GIT_SECONDS)."
                              if said.cut == "time" else "The worker is shutting down.")
        if process.returncode == 0:
            return said.output.decode("utf-8", "surrogateescape")
        raise FetchFailed(self._words(said.complaint.decode("utf-8", "replace"), process.returncode, arguments))

    def _words(self, complaint: str, status: int, arguments: Sequence[str]) -> str:
        if status == 127 and "not found" in complaint:
            return "git is not installed on the worker's host. Install it there (Debian: apt-get install git)."
        if any(path.stat().st_size >= self._limits.bytes for path in self.folder.rglob("*") if path.is_file()):
            return (f"The repository is larger than {self._limits.bytes // 10**6} MB (NNIWEB_GIT_MAX_MB). Use a "
                    "repository without large files, or upload the code.")
        for secret in self._secrets:
            complaint = complaint.replace(secret, "***")
        complaint = complaint.replace(f"{self.folder.parent}/", "")
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        telling = [line for line in lines if _TELLING.match(line)] or lines
        text = " ".join(telling)[:_LONGEST_WORDS] or f"git {arguments[0]} ended with status {status}"
        hint = " The address redirects to another one, which is not followed. Give the other address." \
            if " error: 30" in text else ""
        return f"git says: {text}{hint}"
