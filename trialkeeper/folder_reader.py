"""Lists a folder that a trial writes to, and reads its files, whatever the trial has put there.

Whoever reads may be allowed more than the trial: so no link is followed below the place that is trusted, nothing but
plain files is opened, and each step goes from an open folder to what is in it, so that a folder which is replaced by a
link at that moment leads nowhere. What is listed is limited in number, depth and time.

This file is also a program: its text is given to a Python on other machines, and as other users of this one, with a
request on its input (``answer``).
"""

import errno
import json
import os
import stat
import sys
import time
from typing import Any, BinaryIO, Dict, List, NamedTuple, Tuple

#: What a listing holds at most, how deep it goes, and how long it takes (seconds).
MOST_FILES, MOST_ENTRIES, DEEPEST, LONGEST = 2000, 20000, 20, 10.0
#: Bytes that are read in one go at most.
MOST_BYTES = 4 * 1024 * 1024

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FoundFile(NamedTuple):
    """``name``: path below the folder, with slashes; ``modified``: seconds since 1970."""

    name: str
    size: int
    modified: float


class Piece(NamedTuple):
    """A part of a file. ``size``: of the whole file at that moment. ``number``: another one means another file, which
    took the place of the first one."""

    content: bytes
    size: int
    number: int


class Found(NamedTuple):
    """``cut``: there are more files than are listed. ``left_out``: links, devices, pipes, what cannot be entered, and
    names that are no text."""

    files: List[FoundFile]
    cut: bool
    left_out: int


def list_folder(trusted: str, folder: str, most: int = MOST_FILES) -> Found:
    """The plain files below ``folder`` (relative to ``trusted``), by name. Raises OSError where it cannot be opened."""
    descriptor = _open_folder(trusted, folder.split("/"))
    search = _Search(most)
    try:
        search.look_into(descriptor, "", 0)
    finally:
        os.close(descriptor)
    return Found(sorted(search.files), search.cut, search.left_out)


def read_piece(trusted: str, folder: str, name: str, offset: int, size: int) -> Piece:
    """At most ``size`` bytes of a file from ``offset`` on; none behind its end. Raises OSError."""
    if not is_below(name):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
    descriptor = open_plain_file(trusted, folder + "/" + name)
    with open(descriptor, "rb", buffering=0) as file:
        seen = os.fstat(descriptor)
        file.seek(offset)
        return Piece(file.read(min(size, MOST_BYTES)) or b"", seen.st_size, seen.st_ino)


def open_plain_file(trusted: str, name: str) -> int:
    """A descriptor of a plain file below ``trusted``; no link is followed on the way. Raises OSError."""
    *folders, last = name.split("/")
    if last in ("", ".", ".."):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
    parent = _open_folder(trusted, folders)
    try:
        # looked at before it is opened: opening a device may already do something
        if not stat.S_ISREG(os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", name)
        descriptor = os.open(last, _FILE, dir_fd=parent)
    finally:
        os.close(parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", name)
    return descriptor


def open_plain(path: str) -> BinaryIO:
    """A plain file, also one that a link leads to, at its beginning. Raises OSError, also for everything else.

    For files in a place of which links are not to be feared, but what has no end, or would be waited for: a device, a
    pipe.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", path)
    return open(descriptor, "rb")


def is_below(name: str) -> bool:
    """Whether a name is a path that stays below the folder it is used in."""
    return "\0" not in name and not any(part in ("", ".", "..") for part in name.split("/"))


def _open_folder(trusted: str, names: List[str]) -> int:
    descriptor = os.open(os.path.expanduser(trusted), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in names:
        if part in ("", ".", ".."):
            os.close(descriptor)
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", "/".join(names))
        try:
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


class _Search:
    def __init__(self, most: int) -> None:
        self.files = []  # type: List[FoundFile]
        self.cut = False
        self.left_out = 0
        self._most = most
        self._looked_at = 0
        self._deadline = time.monotonic() + LONGEST

    def look_into(self, folder: int, path: str, depth: int) -> None:
        folders = []  # type: List[str]
        with os.scandir(folder) as entries:
            for entry in entries:
                self._looked_at += 1
                if len(self.files) >= self._most or self._looked_at > MOST_ENTRIES \
                        or time.monotonic() > self._deadline:
                    self.cut = True
                    return
                if not _is_text(entry.name):
                    self.left_out += 1
                    continue
                try:
                    seen = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue  # removed meanwhile
                if stat.S_ISDIR(seen.st_mode):
                    folders.append(entry.name)
                elif stat.S_ISREG(seen.st_mode):
                    self.files.append(FoundFile(path + entry.name, seen.st_size, seen.st_mtime))
                else:
                    self.left_out += 1
        for name in sorted(folders):
            if depth >= DEEPEST:
                self.cut = True
                return
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:
                self.left_out += 1
                continue
            try:
                self.look_into(inner, path + name + "/", depth + 1)
            finally:
                os.close(inner)
            if self.cut:
                return


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def answer(request: Dict[str, Any]) -> Tuple[Dict[str, Any], bytes]:
    """What is told of a request, and what was read.

    ``{"trusted", "folder"}`` and "most" for a list, or "name", "offset" and "size". What went wrong is ``{"errno",
    "error"}``.
    """
    try:
        if "name" in request:
            piece = read_piece(request["trusted"], request["folder"], request["name"], request["offset"],
                               request["size"])
            return {"size": piece.size, "number": piece.number}, piece.content
        found = list_folder(request["trusted"], request["folder"], request["most"])
        return {"files": found.files, "cut": found.cut, "left_out": found.left_out}, b""
    except OSError as error:
        return {"errno": error.errno, "error": error.strerror or str(error)}, b""


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Read one request (JSON), write a line of JSON and what was read."""
    told, content = answer(json.loads(requests.read().decode("utf-8")))
    answers.write(json.dumps(told).encode("ascii") + b"\n" + content)
    answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
