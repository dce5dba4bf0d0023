"""What SQLite asks of the disk: a file system of SQLite's that passes all on to its own and notes writes and flushes.

    with watched_disk() as disk:   # of connections that are opened in the block
        ...
        disk.events                # [("write", "/.../x.sqlite3-wal"), ("sync", "/.../x.sqlite3-wal"), ...]

In SQLite's interface for file systems ``sqlite3_vfs`` and ``sqlite3_io_methods`` are tables of functions. Here those in
use are copied, and calls of the functions that open, write and flush files are noted on their way to the real ones.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_void_p

import pytest

NO_SQLITE = "this Python does not show its SQLite to others"

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _FileSystem(ctypes.Structure):
    """``sqlite3_vfs``, version 3."""

    _fields_ = [("version", c_int), ("file_size", c_int), ("longest_path", c_int), ("next", c_void_p),
                ("name", c_char_p), ("data", c_void_p), ("open", _OPEN), ("others", c_void_p * 15)]


class _FileMethods(ctypes.Structure):
    """``sqlite3_io_methods``, version 3."""

    _fields_ = [("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", _WRITE),
                ("truncate", c_void_p), ("sync", _SYNC), ("others", c_void_p * 13)]


class WatchedDisk:
    """Thread-safe. It has to stay as long as a file does that was opened through it."""

    def __init__(self, real: _FileSystem) -> None:
        assert real.version == 3, "the tables above are those of version 3"
        self._real = real
        #: Address of an open file -> its path.
        self._paths: dict[int, str] = {}
        #: Address of a table in use -> what stands in for it.
        self._methods: dict[int, _FileMethods] = {}
        #: What was asked for, in order, and of which file: "write", "sync", or what a test adds.
        self.events: list[tuple[str, str]] = []
        self.file_system = _FileSystem.from_buffer_copy(real)
        self.file_system.name = b"watched"
        self.file_system.open = _OPEN(self._open)

    def _open(self, system: int, path: int | None, file: int, flags: int, given: int | None) -> int:
        status = int(self._real.open(system, path, file, flags, given))
        table = c_void_p.from_address(file)  # a file begins with the address of its functions
        if status == 0 and table.value is not None:
            self._paths[file] = os.fsdecode(ctypes.string_at(path)) if path else ""
            if table.value not in self._methods:
                self._methods[table.value] = self._noted(_FileMethods.from_address(table.value))
            table.value = ctypes.addressof(self._methods[table.value])
        return status

    def _noted(self, real: _FileMethods) -> _FileMethods:
        def write(file: int, data: int, size: int, offset: int) -> int:
            self.events.append(("write", self._paths[file]))
            return int(real.write(file, data, size, offset))

        def sync(file: int, flags: int) -> int:
            status = int(real.sync(file, flags))
            self.events.append(("sync" if status == 0 else "failed sync", self._paths[file]))
            return status

        noted = _FileMethods.from_buffer_copy(real)
        noted.write, noted.sync = _WRITE(write), _SYNC(sync)
        return noted


#: Those of this process: connections may be closed long after the block.
_made: list[WatchedDisk] = []


@contextmanager
def watched_disk() -> Iterator[WatchedDisk]:
    """Connections to SQLite that this process opens in the block are watched as long as they live."""
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))  # None: it is part of this program
    if not hasattr(library, "sqlite3_vfs_find"):
        pytest.skip(NO_SQLITE)
    library.sqlite3_vfs_find.restype = POINTER(_FileSystem)
    disk = WatchedDisk(library.sqlite3_vfs_find(None).contents)
    _made.append(disk)
    assert library.sqlite3_vfs_register(byref(disk.file_system), 1) == 0
    try:
        yield disk
    finally:
        library.sqlite3_vfs_unregister(byref(disk.file_system))
