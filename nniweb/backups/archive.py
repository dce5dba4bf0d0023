"""The file of a backup: a compressed tar whose last member, the manifest, says what must be in it.

Without a manifest, or with a member that is not as it says, a file is no whole backup and nothing of it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nniweb.backups.progress import Progress
from nniweb.backups.segments import Packed, Segments, sound
from trialkeeper.durable_files import put_in_place

#: Grows when an older program could not read the file. 2: it says what it holds, which need not be all; 1: all.
FORMAT, READABLE = 2, (1, 2)
MANIFEST = "manifest.json"
_PIECE = 1024 * 1024


class NotABackup(Exception):
    """The file cannot be restored; the sentence says why."""


class BackupWriter:
    """Writes a draft beside the file and puts it in its place when it is whole. Only its owner can read it."""

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        """``folder``: where the draft is, with a journal, so that a writer that was interrupted is gone on with; what
        it has left there is read through. The journal is there before the draft. Raises OSError.
        """
        self._path = path
        self.draft = path.with_name(f".{path.name}.draft") if folder is None else folder / "draft"
        so_far, self._journal = Packed(), None
        if folder is not None:
            so_far, self._journal = _gone_on_with(self.draft, folder / "journal")
        self._file = os.fdopen(os.open(self.draft, os.O_WRONLY | os.O_CREAT, 0o600), "wb")
        self._file.truncate(so_far.packed)
        self._file.seek(so_far.packed)
        self._segments = Segments(self._file, self._journal, so_far)
        self._members = dict(so_far.members)
        self._inside = so_far.inside
        if self._inside is None:
            self._tar = self._opened()
        #: Bytes that an interrupted writer had packed.
        self.packed_before = so_far.packed
        #: Names of files that went away while they were to be read.
        self.gone: list[str] = []

    def _opened(self) -> tarfile.TarFile:
        return tarfile.open(fileobj=self._segments, mode="w")  # type: ignore[call-overload, no-any-return]  # tell, write

    def add(self, path: Path, name: str, progress: Progress | None = None, *, is_fixed: bool = False) -> None:
        """Add a file, unless it was added; one that has gone meanwhile is noted, not an error. ``progress`` is told of
        its bytes. ``is_fixed``: it is the same where the writing was interrupted and goes on; others are then added
        from their beginning.
        """
        if self.has(name):
            return
        try:
            source = open(path, "rb")  # noqa: SIM115  # closed below
        except FileNotFoundError:
            self.gone.append(name)
            return
        with source:
            size = os.fstat(source.fileno()).st_size
            counted = _Counted(source, size, progress)
            if self._inside is not None:
                self._add_rest(counted, name, size)
            else:
                info = self._info(name, size)
                if is_fixed:
                    begins = self._tar.offset + len(info.tobuf(self._tar.format))
                    self._segments.inside = (name, size, begins)
                self._tar.addfile(info, counted)
            self._members[name] = counted.sha256
            self._segments.added(name, counted.sha256)

    def _add_rest(self, counted: _Counted, name: str, size: int) -> None:
        """Of the file in the middle of which the writing was interrupted."""
        assert self._inside is not None
        was, size_then, begins = self._inside
        assert (name, size) == (was, size_then), f"{name} ({size} bytes) is not the file that was being added, {was}"
        self._segments.inside, self._inside = self._inside, None
        for _ in counted.pieces(min(size, self._segments.tell() - begins)):
            pass  # it is in the tar; for the check sum
        for piece in counted.pieces(size):
            self._segments.write(piece)
        end = begins + size + -size % tarfile.BLOCKSIZE
        self._segments.write(bytes(end - self._segments.tell()))
        self._tar = self._opened()

    def has(self, name: str) -> bool:
        """Whether a file of this name was added."""
        return name in self._members

    def finish(self, about: dict[str, Any]) -> None:
        """Write the manifest and put the file in its place."""
        text = json.dumps({"format": FORMAT, **about, "members": self._members}, indent=1).encode()
        self._tar.addfile(self._info(MANIFEST, len(text)), io.BytesIO(text))
        self._tar.close()
        self._segments.finish()
        self.leave()
        put_in_place(str(self.draft), str(self._path))

    def leave(self) -> None:
        """Let go of the files, for a later writer to go on with."""
        for file in (self._file, self._journal):
            with contextlib.suppress(OSError):  # what was not flushed is not in the journal; the disk may be full
                if file is not None:
                    file.close()

    def give_up(self) -> None:
        self.leave()
        self.draft.unlink(missing_ok=True)

    @staticmethod
    def _info(name: str, size: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        return info


def _gone_on_with(draft: Path, journal: Path) -> tuple[Packed, IO[bytes]]:
    """What is whole of a draft, and its journal, cut behind what says so."""
    so_far, told = sound(draft, journal) if draft.exists() and journal.exists() else (Packed(), 0)
    file = os.fdopen(os.open(journal, os.O_WRONLY | os.O_CREAT, 0o600), "wb")
    file.truncate(told)
    file.seek(told)
    return so_far, file


class _Counted:
    """A file of a size that was fixed when it was opened: one that grows is cut there, one that shrank is filled up."""

    def __init__(self, source: IO[bytes], size: int, progress: Progress | None) -> None:
        self._source, self._left, self._hash, self._progress = source, size, hashlib.sha256(), progress

    def read(self, count: int = -1) -> bytes:
        wanted = self._left if count < 0 else min(count, self._left)
        piece = self._source.read(wanted)
        piece += b"\0" * (wanted - len(piece))
        self._left -= wanted
        self._hash.update(piece)
        if self._progress is not None:
            self._progress.add(len(piece))
        return piece

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next bytes, at most so many."""
        end = max(0, self._left - size)
        while self._left > end:
            yield self.read(min(_PIECE, self._left - end))

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack a backup into an empty folder and check it against its manifest, which is returned. Raises NotABackup."""
    found: dict[str, str] = {}
    manifest: dict[str, Any] | None = None
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                if member.name == MANIFEST:
                    manifest = json.loads(_content(tar, member).read())
                else:
                    found[member.name] = _unpack_one(tar, member, folder)
    except FileNotFoundError:
        raise NotABackup(f"There is no file {path}.") from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise NotABackup(f"{path} is not a backup, or only a part of one: {error}.") from None
    if manifest is None:
        raise NotABackup(f"{path} is incomplete: it is only a part of a backup.")
    if manifest.get("format") not in READABLE:
        raise NotABackup(f"{path} was made by a newer version of NNI Web (its format is {manifest.get('format')}, this "
                         f"program reads {FORMAT}). Restore it with that version.")
    wrong = sorted(name for name, sha256 in manifest["members"].items() if found.get(name) != sha256)
    if wrong or len(found) != len(manifest["members"]):
        raise NotABackup(f"{path} is damaged: {', '.join(wrong[:3]) or 'it contains more than its manifest says'}.")
    return manifest


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member) if member.isfile() else None
    if content is None:
        raise NotABackup(f"{member.name} in the backup is not a regular file.")
    return content


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> str:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise NotABackup(f"{member.name} in the backup points outside of the data folder.")
    target = folder / name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sha256 = hashlib.sha256()
    content = _content(tar, member)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while piece := content.read(_PIECE):
            sha256.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return sha256.hexdigest()


def plain_files(folder: Path) -> Iterator[Path]:
    """All plain files below a folder, in order; links and sockets are nothing that is kept."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path
            except FileNotFoundError:
                continue
