"""Code that came as an archive: unpacked with suspicion into a folder of its own.

Taken are tar.gz and zip with files and folders. Refused are links, devices, names that lead out of
the folder, and archives that hold more than may be shipped (an archive bomb ends at the limit, not
when the disk is full, and a bomb of headers when they are read).
"""

import gzip
import re
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

from trainingservice.code.code_archive import MAX_BYTES
from trainingservice.words.shown_value import shown

#: Entries of an archive, those that .nniignore will leave out included.
MAX_ENTRIES = 10_000
#: Of the tar itself, headers included.
_MAX_TAR_BYTES = MAX_BYTES + MAX_ENTRIES * 1024
#: Of what says what is in an archive: a header with the longest path that Linux has, for each entry.
_MAX_HEADER_BYTES = MAX_ENTRIES * 4096
#: In a header that tarfile reads it looks for a number at each digit, which takes hours where they are many
#: (CVE-2024-6232, in Python up to 3.11.9 and 3.12.5).
_MANY_DIGITS = re.compile(rb"\d{100}")
#: What each entry of a zip's directory begins with. For all of them zipfile makes objects before it tells of one.
_IN_DIRECTORY = b"PK\x01\x02"
_BLOCK = 256 * 1024


class UploadRefused(Exception):
    """The archive cannot be used. The text says which part of it, and what to do."""


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack a tar.gz or zip into ``folder``, which must exist and be empty. Raises UploadRefused."""
    start = archive.read(4)
    archive.seek(0)
    try:
        if start.startswith(b"\x1f\x8b"):
            _unpack_tar(archive, folder)
        elif start in (b"PK\x03\x04", b"PK\x05\x06"):
            _unpack_zip(archive, folder)
        else:
            raise UploadRefused("The file is neither a tar.gz nor a zip. "
                                "Make one with: tar czf code.tar.gz -C FOLDER .")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, gzip.BadGzipFile) as error:
        raise UploadRefused(f"The archive is damaged: {error}. Create it again.") from error
    except RecursionError:
        raise UploadRefused("The archive cannot be unpacked: its folders lie too deep within each other.") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UploadRefused(f"The archive cannot be unpacked: {error}.") from error


def _unpack_tar(archive: IO[bytes], folder: Path) -> None:
    # the tar is written out first: its reader allocates what headers claim, so what it reads must be limited
    with tempfile.TemporaryFile(dir=folder.parent) as plain, gzip.GzipFile(fileobj=archive) as packed:
        _copy(cast(IO[bytes], packed), plain, _MAX_TAR_BYTES)
        plain.seek(0)
        budget = _Budget()
        headers = _Headers(plain, _check_tar_header)
        with tarfile.open(fileobj=cast(IO[bytes], headers), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    _folder(folder, member.name)
                    budget.take(member.name, 0)
                    continue
                if not member.isreg():
                    kind = "a link" if member.issym() or member.islnk() else "no ordinary file"
                    raise UploadRefused(_odd(member.name, kind))
                budget.take(member.name, member.size)
                source = tar.extractfile(member)
                assert source is not None  # it is a file
                with headers.passed():
                    _write(folder, member.name, source, member.size, bool(member.mode & 0o111))


def _unpack_zip(archive: IO[bytes], folder: Path) -> None:
    budget = _Budget()
    headers = _Headers(archive, _check_zip_directory)
    with zipfile.ZipFile(cast(IO[bytes], headers)) as packed, headers.passed():
        for info in packed.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                _folder(folder, info.filename)
                budget.take(info.filename, 0)
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise UploadRefused(_odd(info.filename, "a link" if stat.S_ISLNK(mode) else "no ordinary file"))
            if info.flag_bits & 0x1:
                raise UploadRefused(f"{info.filename} in the archive is encrypted. Create the archive without a "
                                    "password.")
            budget.take(info.filename, info.file_size)
            with packed.open(info) as source:
                _write(folder, info.filename, source, info.file_size, bool(mode & 0o111))


class _Headers:
    """An archive as the reader of its headers sees it: they are bounded, and each is checked before it is read."""

    def __init__(self, archive: IO[bytes], check: Callable[[bytes], None]) -> None:
        self._archive = archive
        self._check = check
        self._left = _MAX_HEADER_BYTES
        self._is_content = False
        self.seek, self.tell, self.seekable = archive.seek, archive.tell, archive.seekable

    @contextmanager
    def passed(self) -> Iterator[None]:
        """While content is read."""
        self._is_content = True
        try:
            yield
        finally:
            self._is_content = False

    def read(self, size: int = -1) -> bytes:
        if self._is_content:
            return self._archive.read(size)
        most = self._left + 1
        header = self._archive.read(min(size, most) if size >= 0 else most)
        self._left -= len(header)
        if self._left < 0:
            raise UploadRefused(f"The headers of the archive have more than {_MAX_HEADER_BYTES // 2**20} MB. Create it "
                                "again, with fewer files or shorter names.")
        self._check(header)
        return header


def _check_tar_header(header: bytes) -> None:
    if len(header) > tarfile.BLOCKSIZE and _MANY_DIGITS.search(header):
        raise UploadRefused("A header of the archive contains a number of more than 100 digits. Rename the file that "
                            "has it in its name, or create the archive again with: tar czf code.tar.gz -C FOLDER .")


def _check_zip_directory(directory: bytes) -> None:
    if directory.count(_IN_DIRECTORY) > MAX_ENTRIES:
        raise _too_many()


def _too_many() -> UploadRefused:
    return UploadRefused(f"The archive contains more than {MAX_ENTRIES} files and folders. Leave out files that the "
                         "trials do not need.")


class _Budget:
    """Counts entries and bytes; the claimed sizes, which writing does not exceed."""

    def __init__(self) -> None:
        self.entries = self.bytes = 0

    def take(self, name: str, size: int) -> None:
        self.entries += 1
        self.bytes += size
        if self.entries > MAX_ENTRIES:
            raise _too_many()
        if self.bytes > MAX_BYTES or size < 0:
            raise UploadRefused(f"Unpacked, the archive is larger than {MAX_BYTES // 2**20} MB (at {name}). Leave out "
                                "files that the trials do not need, and store data outside of the code.")


def _odd(name: str, kind: str) -> str:
    return f"{name} in the archive is {kind}. Only files and folders are accepted. Replace it with the file itself."


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\x00" in name:
        raise UploadRefused(f"The archive contains the name {shown(name)}, which points outside of its folder. "
                            "Create the "
                            "archive with names relative to the code folder.")
    return path.parts


def _folder(folder: Path, name: str) -> None:
    folder.joinpath(*_parts(name)).mkdir(parents=True, exist_ok=True)


def _write(folder: Path, name: str, source: IO[bytes], size: int, executable: bool) -> None:
    target = folder.joinpath(*_parts(name))
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "wb") as goal:
        _copy(source, goal, size)
    target.chmod(0o700 if executable else 0o600)


def _copy(source: IO[bytes], goal: IO[bytes], most: int) -> None:
    """Copy, and refuse what is longer than it may be, or than it said."""
    for block in _blocks(source):
        most -= len(block)
        if most < 0:
            raise UploadRefused(f"Unpacked, the archive is larger than {MAX_BYTES // 2**20} MB or larger than its "
                                "header says. Leave out files that the trials do not need.")
        goal.write(block)


def _blocks(source: IO[bytes]) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block

