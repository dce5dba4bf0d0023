"""Takes a backup, while the server runs."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import BackupWriter, plain_files
from nniweb.backups.database import CannotCopy
from nniweb.backups.progress import Progress, Say, in_time, nothing
from nniweb.backups.secrets_in_words import stored_secrets
from nniweb.backups.unfinished import InUse, NotOurs, Unfinished
from nniweb.experiments.retention.stored_files import stored_files
from nniweb.experiments.secrets import sealing
from nniweb.experiments.sql.schema_version import is_of_this_version
from nniweb.storage.backup_places import note_backup
from nniweb.storage.elsewhere import is_elsewhere

#: What is kept of the data folder beside the database. Of a cluster's folder: not what belongs to this machine's
#: running trials and agent, nor what is made again when it is needed.
KEYS, FILES, CLUSTERS, CHECKPOINTS = FOLDERS = ("keys", "files", "clusters", "checkpoints")
DATABASE = "database"
#: What a backup holds unless more, or less, is asked for.
USUALLY = (DATABASE, FILES, CLUSTERS, CHECKPOINTS)
#: Bytes a second, for estimates: of copying the database, and of packing.
COPIED, PACKED = 30e6, 40e6
_NOT_OURS = ("{folder} is no folder that a backup of this user has left, and it is in the way: it is a link, or "
             "another user owns it or may write to it. Remove it if you know whose it is, or name another file.")
_IN_USE = "Another process is writing a backup to {path}. Wait for it, or name another file."
NOT_OF_CLUSTERS = ("trials", "agent", "agents", "code", "keepers", "snapshots")


def take(path: Path, now: datetime, parts: Sequence[str] = USUALLY, *, with_stored: bool = False,
         say: Say = nothing, goes_on: bool = False) -> list[str]:
    """Write a backup to ``path``, whole or not at all. Returns the names of files that went away meanwhile.

    ``parts``: DATABASE, and which of FOLDERS go with it. ``with_stored``: also the files of NNIWEB_FILE_STORAGE, which
    otherwise stay there alone. ``say`` is told how far it is, where it takes a while. ``goes_on``: go on with one that
    was interrupted, and leave what there is where this one is (``unfinished``). Raises OSError (StorageFailed) and
    CannotCopy.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder: name the file in it that is to be written")
    try:
        with Unfinished(path) as unfinished:
            try:
                note_backup(unfinished.folder)
                if not goes_on:
                    unfinished.clear()
                gone = _take(unfinished, path, now, parts, with_stored, say)
            except BaseException:
                if not (goes_on and unfinished.can_go_on):
                    unfinished.remove()
                raise
            unfinished.remove()
    except InUse:
        raise CannotCopy(_IN_USE.format(path=path)) from None
    except NotOurs:
        raise CannotCopy(_NOT_OURS.format(folder=Unfinished(path).folder)) from None
    note_backup(path)
    return gone


def discard(path: Path) -> None:
    """Remove what an interrupted backup to this file has left. Raises OSError and CannotCopy."""
    try:
        with Unfinished(path) as unfinished:
            unfinished.remove()
    except InUse:
        raise CannotCopy(_IN_USE.format(path=path)) from None
    except NotOurs:
        raise CannotCopy(_NOT_OURS.format(folder=Unfinished(path).folder)) from None


def _take(unfinished: Unfinished, path: Path, now: datetime, parts: Sequence[str], with_stored: bool, say: Say
          ) -> list[str]:
    """The database first: a file is there before a row that needs it, and stays as long."""
    wanted = {"installation": settings.INSTALLATION_ID, "version": __version__, "holds": sorted(parts),
              "database": database.member_name(), "migrations": database.migrations(), **_about_storage(with_stored),
              "seal_keys": seal_key_marks()}
    found = unfinished.taken_at(wanted, now)
    if found is None:
        unfinished.clear()
        taken_at, more = now, {"secrets": stored_secrets() if is_of_this_version() else []}
        database.copy_to(unfinished.database, say)
        unfinished.keep(wanted, taken_at, more)
    else:
        taken_at, more = found
    writer = BackupWriter(path, unfinished.folder)
    try:
        if found is not None:
            say(f"A backup that was interrupted is continued: the database as it was at {taken_at:%Y-%m-%d %H:%M:%S} "
                f"UTC is copied, and {writer.packed_before / 1e6:,.1f} MB are packed.")
        if not writer.has(database.member_name()):
            size = unfinished.database.stat().st_size
            writer.add(unfinished.database, database.member_name(), Progress("Packing the database", size, say),
                       is_fixed=True)
        _add_files(writer, parts, say)
        if with_stored and is_elsewhere() and FILES in parts:
            _add_stored(writer, unfinished.folder / "file")
        writer.finish({**wanted, "taken_at": taken_at.isoformat(), **more})
    except BaseException:
        writer.leave()
        raise
    return writer.gone


def _add_files(writer: BackupWriter, parts: Sequence[str], say: Say) -> None:
    def names() -> Iterator[tuple[Path, str]]:
        for file in _files(settings.DATA_FOLDER, parts):
            name = str(file.relative_to(settings.DATA_FOLDER))
            if not writer.has(name):
                yield file, name

    if len(parts) > 1:
        progress = Progress("Packing files", sum(_size(file) for file, _ in names()), say)
        for file, name in names():
            writer.add(file, name, progress)


def expected(parts: Sequence[str] = USUALLY) -> str:
    """What a backup is of and what room it takes, in a sentence. Raises DatabaseError, OSError."""
    of_database = database.size()
    files = sum(_size(file) for file in _files(settings.DATA_FOLDER, parts))
    seconds = of_database / COPIED + (of_database + files) / PACKED
    return (f"The database has {of_database / 1e6:,.1f} MB"
            + (f", and files have {files / 1e6:,.1f} MB" if len(parts) > 1 else "")
            + f". The backup will take about {in_time(seconds)}, and up to {(2 * of_database + files) / 1e6:,.1f} MB "
              "while it is made.")


def _size(file: Path) -> int:
    """Bytes; 0 of one that has gone."""
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0


def _about_storage(with_stored: bool) -> dict[str, str]:
    """What a restored installation must have beside the backup; nothing where all is in it."""
    if not is_elsewhere() or with_stored:
        return {}
    storages: dict[str, Any] = settings.STORAGES
    return {"stored_elsewhere": str(storages["default"]["OPTIONS"]["backend"])}


def _add_stored(writer: BackupWriter, copy: Path) -> None:
    """The files of the storage, one after another, as if they were in the data folder. ``copy``: a file for each in
    turn.
    """
    for name, _ in stored_files():
        member = f"{FILES}/{name}"
        if writer.has(member):  # it waits in the data folder to be moved, or was added before an interruption
            continue
        try:
            with default_storage.open(name) as source, open(copy, "wb") as goal:
                shutil.copyfileobj(source, goal, 1024 * 1024)
        except FileNotFoundError:
            writer.gone.append(member)
            continue
        writer.add(copy, member)


def _files(data_folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    for name in (name for name in FOLDERS if name in parts):
        for file in plain_files(data_folder / name):
            names = file.relative_to(data_folder).parts
            if name != CLUSTERS or len(names) < 3 or names[2] not in NOT_OF_CLUSTERS:
                yield file


def seal_key_marks() -> list[str]:
    """By which it is seen whether keys are the same, without being told them."""
    return [hashlib.sha256(f"seal key {key}".encode()).hexdigest()[:16] for key in sealing.current_keys()]
