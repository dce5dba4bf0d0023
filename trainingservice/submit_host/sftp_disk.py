"""The disks of a machine that is reached through SSH, by its file transfer (``submit_host.disk.Disk``)."""

from __future__ import annotations

import contextlib
import errno
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainingservice.files.output_folder import FolderElsewhere, OutputFolder
from trainingservice.ssh.connection import Connection
from trainingservice.submit_host.disk import MOST_AT_ONCE, REMOVALS, REMOVE_AGAIN_AFTER
from trainingservice.submit_host.machine_output import run_reader

_PIECE = 1024 * 1024


class SftpDisk:
    """``connected`` gives a living connection, or raises TemporaryError."""

    def __init__(self, connected: Callable[[], Connection]) -> None:
        self._connected = connected

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        with self._connected().sftp() as sftp:
            yield sftp

    def is_folder(self, path: Path) -> bool:
        with self._session() as sftp:
            attributes = _attributes(sftp, path)
            return attributes is not None and stat.S_ISDIR(attributes.st_mode or 0)

    def exists(self, path: Path) -> bool:
        with self._session() as sftp:
            return _attributes(sftp, path) is not None

    def make_folder(self, path: Path, mode: int) -> None:
        with self._session() as sftp:
            if _attributes(sftp, path) is None:
                try:
                    sftp.mkdir(str(path), mode)
                    sftp.chmod(str(path), mode)
                except OSError:
                    if _attributes(sftp, path) is None:  # nobody else has just made it
                        raise

    def size(self, path: Path) -> int | None:
        with self._session() as sftp:
            attributes = _attributes(sftp, path)
            return None if attributes is None else int(attributes.st_size or 0)

    def put(self, path: Path, content: bytes, mode: int, *, durable: bool = False) -> None:
        with self._session() as sftp:
            _write(sftp, path, iter([content]), len(content), mode)

    def copy(self, source: Path, target: Path, mode: int) -> None:
        with self._session() as sftp, source.open("rb") as stream:
            _write(sftp, target, iter(lambda: stream.read(_PIECE), b""), source.stat().st_size, mode)

    def touch(self, path: Path) -> None:
        with self._session() as sftp:
            sftp.open(str(path), "ab").close()

    def read(self, path: Path, offset: int = 0, most: int = MOST_AT_ONCE) -> bytes | None:
        with self._session() as sftp:
            try:
                with sftp.open(str(path), "rb") as stream:
                    stream.seek(offset)
                    content: bytes = stream.read(most)
                    return content
            except FileNotFoundError:
                return None

    def remove_file(self, path: Path) -> None:
        with self._session() as sftp, contextlib.suppress(FileNotFoundError):
            sftp.remove(str(path))

    def remove_folder(self, path: Path) -> list[str]:
        for _ in range(REMOVALS):
            problems: list[str] = []
            refilled: list[str] = []
            with self._session() as sftp:
                _remove(sftp, path, problems, refilled)
            if problems or not refilled:
                break
            time.sleep(REMOVE_AGAIN_AFTER)  # a keeper that is about to end wrote something meanwhile
        return problems + refilled

    def free_bytes(self, path: Path) -> int | None:
        return None  # SFTP's own protocol does not say

    def output(self, trusted: Path, folder: str) -> OutputFolder:
        # by a program: SFTP follows links, and would need a question for each folder
        return FolderElsewhere(str(trusted), folder, lambda content: run_reader(self._connected(), "python3", content))


def _attributes(sftp: Any, path: Path) -> Any:
    try:
        return sftp.stat(str(path))
    except FileNotFoundError:
        return None


def _write(sftp: Any, path: Path, pieces: Iterator[bytes], size: int, mode: int) -> None:
    partial = str(path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}"))
    try:
        with sftp.open(partial, "wb") as stream:
            sftp.chmod(partial, mode)
            stream.set_pipelined(True)
            for piece in pieces:
                stream.write(piece)
        if sftp.stat(partial).st_size != size:
            raise OSError(errno.ENOSPC, "fewer bytes arrived than were sent; the disk may be full", str(path))
        sftp.posix_rename(partial, str(path))
    except OSError:
        with contextlib.suppress(OSError):
            sftp.remove(partial)
        raise


def _remove(sftp: Any, path: Path, problems: list[str], refilled: list[str]) -> None:
    """``problems``: what cannot be removed, and why. ``refilled``: folders into which something came meanwhile."""
    known = len(problems)
    try:
        for entry in sftp.listdir_attr(str(path)):
            inner = path / entry.filename
            if stat.S_ISDIR(entry.st_mode or 0):
                _remove(sftp, inner, problems, refilled)
            else:
                try:
                    sftp.remove(str(inner))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    problems.append(f"{inner} ({error.strerror or error})")
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{path} ({error.strerror or error})")
        return
    try:
        sftp.rmdir(str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        # SFTP does not say why it failed
        came = len(problems) == known and bool(sftp.listdir(str(path)))
        (refilled if came else problems).append(f"{path} ({error.strerror or error})")
