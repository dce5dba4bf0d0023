"""Takes a backup, while the server runs."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import BackupWriter, plain_files
from nniweb.backups.progress import Progress, Say, in_time, nothing
from nniweb.backups.secrets_in_words import stored_secrets
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
NOT_OF_CLUSTERS = ("trials", "agent", "agents", "code", "keepers", "snapshots")


def take(path: Path, now: datetime, parts: Sequence[str] = USUALLY, *, with_stored: bool = False,
         say: Say = nothing) -> list[str]:
    """Write a backup to ``path``, whole or not at all. Returns the names of files that went away meanwhile.

    ``parts``: DATABASE, and which of FOLDERS go with it. ``with_stored``: also the files of NNIWEB_FILE_STORAGE, which
    otherwise stay there alone. ``say`` is told how far it is, where it takes a while. Raises OSError (StorageFailed)
    and CannotCopy.
    """
    writer = BackupWriter(path)
    try:
        # the database first: a file is there before a row that needs it, and stays as long
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            copy = Path(scratch) / "database"
            applied, secrets = database.migrations(), stored_secrets() if is_of_this_version() else []
            database.copy_to(copy, say)
            writer.add(copy, database.member_name(), Progress("Packing the database", copy.stat().st_size, say))
        if len(parts) > 1:
            size = sum(_size(file) for file in _files(settings.DATA_FOLDER, parts))
            progress = Progress("Packing files", size, say)
            for file in _files(settings.DATA_FOLDER, parts):
                writer.add(file, str(file.relative_to(settings.DATA_FOLDER)), progress)
        if with_stored and is_elsewhere() and FILES in parts:
            _add_stored(writer, path)
        writer.finish({"installation": settings.INSTALLATION_ID, "taken_at": now.isoformat(), "version": __version__,
                       "holds": sorted(parts), "database": database.member_name(), "migrations": applied,
                       **_about_storage(with_stored), "seal_keys": seal_key_marks(), "secrets": secrets})
        note_backup(path)
    except BaseException:
        writer.give_up()
        raise
    return writer.gone


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


def _add_stored(writer: BackupWriter, path: Path) -> None:
    """The files of the storage, one after another, as if they were in the data folder."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        copy = Path(scratch) / "file"
        for name, _ in stored_files():
            member = f"{FILES}/{name}"
            if writer.has(member):  # it waits in the data folder to be moved
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
