"""The folder to which a trial writes what it makes (``NNI_OUTPUT_DIR``), for those who want to see it.

``OutputFolder`` is what a platform hands out; ``FolderHere`` and ``FolderElsewhere`` are the two kinds there are. Both
read with ``trialkeeper.folder_reader``, in this process or as a program where the folder is, so what is said there of
links, devices and races holds for all of them.
"""

from __future__ import annotations

import abc
import errno
import json
import shlex
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.rest.told_json import read_json
from trialkeeper import folder_reader
from trialkeeper.folder_reader import MOST_BYTES, Found, FoundFile, Piece

__all__ = ["MOST_BYTES", "FolderElsewhere", "FolderHere", "Found", "FoundFile", "NoSuchOutput", "OutputFolder",
           "PYTHON_CODE", "Piece", "python_command"]

#: Seconds that one list, or one piece of a file, may take elsewhere.
TIMEOUT = 30.0
#: Errors that say: not there, or not to be opened by us.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO})


class NoSuchOutput(TrainingServiceError):
    """The folder or the file is not there (any more), or it is something that is not opened: a link, a device."""


class OutputFolder(abc.ABC):
    """One trial's folder. Methods may be called from any thread and take seconds at most.

    They raise NoSuchOutput, and TemporaryError where the machine cannot be asked.
    """

    @abc.abstractmethod
    def list_files(self) -> Found:
        """The plain files in it and below, by name, within limits that the answer speaks of."""

    @abc.abstractmethod
    def read(self, name: str, offset: int, size: int = MOST_BYTES) -> Piece:
        """At most ``size`` bytes (never more than MOST_BYTES) from ``offset`` on; none behind the end."""

    def close(self) -> None:
        """Let go of connections. May be repeated."""


class FolderHere(OutputFolder):
    """``folder`` is below ``trusted``, a path of this machine to which no trial can write."""

    def __init__(self, trusted: str, folder: str) -> None:
        self._trusted, self._folder = trusted, folder

    def list_files(self) -> Found:
        try:
            return folder_reader.list_folder(self._trusted, self._folder)
        except OSError as error:
            raise _error("", error.errno, error.strerror or str(error)) from error

    def read(self, name: str, offset: int, size: int = MOST_BYTES) -> Piece:
        try:
            return folder_reader.read_piece(self._trusted, self._folder, name, offset, size)
        except OSError as error:
            raise _error(name, error.errno, error.strerror or str(error)) from error


class FolderElsewhere(OutputFolder):
    """A folder that only a program sees, one of another machine or of another user."""

    def __init__(self, trusted: str, folder: str, run: Callable[[bytes], bytes],
                 close: Callable[[], None] = lambda: None) -> None:
        """``run``: has a Python there run ``PYTHON_CODE`` with this input, and gives what it wrote. It raises
        TemporaryError."""
        self._request = {"trusted": trusted, "folder": folder}
        self._run, self._close = run, close

    def list_files(self) -> Found:
        told, _ = self._ask("", {"most": folder_reader.MOST_FILES})
        files = [FoundFile(*file) for file in told["files"]]
        # what a machine tells may become paths of whoever asked
        plain = [file for file in files if folder_reader.is_below(file.name)]
        return Found(plain, told["cut"], told["left_out"] + len(files) - len(plain))

    def read(self, name: str, offset: int, size: int = MOST_BYTES) -> Piece:
        told, content = self._ask(name, {"name": name, "offset": offset, "size": min(size, MOST_BYTES)})
        return Piece(content, told["size"], told["number"])

    def close(self) -> None:
        self._close()

    def _ask(self, name: str, more: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        request = json.dumps(self._request | more).encode()
        line, newline, content = self._run(_reader() + request).partition(b"\n")
        try:
            told = read_json(line)
        except ValueError:
            told = None
        if not newline or not isinstance(told, dict) or not told:
            raise TemporaryError("The machine sent an unexpected answer. Check whether a shell profile of the user "
                                 "there prints text.")
        if "error" in told:
            raise _error(name, told["errno"], str(told["error"]))
        return told, content


@cache
def _reader() -> bytes:
    return files("trialkeeper").joinpath("folder_reader.py").read_bytes()


#: What a Python runs (``python3 -I -S -c``): the reader comes first in its input, the request behind it. So no shell
#: between here and there has to carry a long text.
PYTHON_CODE = f"import sys; exec(sys.stdin.buffer.read({len(_reader())}))"


def python_command(python: str) -> str:
    """The line for ``sh`` that runs it with this Python."""
    return f"exec {shlex.quote(python)} -I -S -c {shlex.quote(PYTHON_CODE)}"


def _error(name: str, number: int | None, text: str) -> TrainingServiceError:
    if number in _NOT_THERE and not name:
        return NoSuchOutput("There is no output folder, because the trial has not started or its files were removed.")
    if number in _NOT_THERE:
        return NoSuchOutput(f"There is no such file to read: {name} was removed or is not a regular file (links are "
                            "not followed).")
    if number in (errno.EACCES, errno.EPERM):
        return TemporaryError(f"{name or 'The output folder'} belongs to a user whose files the server may not read. "
                              "Let the trial make it readable, or name it in keepFiles.")
    return TemporaryError(f"{name or 'The output folder'} cannot be read: {text}.")
