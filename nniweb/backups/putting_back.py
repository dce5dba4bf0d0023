"""Puts a backup back into the data folder (and PostgreSQL), whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from nniweb.backups import database
from nniweb.backups.archive import plain_files, unpack
from nniweb.backups.taking import CLUSTERS, FOLDERS, KEYS, seal_key_marks
from nniweb.experiments.clusters.worker_presence import alive_hosts
from nniweb.experiments.models import Worker
from nniweb.storage.data_folder import RESTORING, ServerLock, prepare
from trialkeeper.durable_files import flush_file, flush_folder


class CannotRestore(Exception):
    """Nothing was changed; the sentence says why, and what to do."""


def put_back(path: Path, force: bool, now: datetime) -> tuple[dict[str, Any], Path | None]:
    """Restore a backup; returns its manifest and where the old installation was put, None where there was none.

    Raises CannotRestore, NotABackup, CannotCopy, OSError, DataFolderLocked: then the old installation is as it was.
    """
    data_folder = prepare(Path(settings.DATA_FOLDER))
    lock = ServerLock(data_folder)
    lock.acquire()
    try:
        was_used = database.holds_something() or (data_folder / "files").exists()
        if was_used and not force:
            raise CannotRestore(f"There is already an installation in {data_folder}. Choose an empty folder with "
                                "NNIWEB_DATA, or use --force to move the old installation aside.")
        if was_used and database.member_name() == database.POSTGRESQL and _workers_are_alive():
            raise CannotRestore("A worker uses this database. Stop all workers and web servers first.")
        scratch = Path(tempfile.mkdtemp(dir=data_folder, prefix=".restore-"))
        try:
            manifest = unpack(path, scratch)
            _check(manifest, scratch)
            aside = make_aside(data_folder, now) if was_used else None
            if KEYS not in _parts(manifest):
                _name_of(scratch).write_text(manifest["installation"])
                flush_file(str(_name_of(scratch)))
            for folder in _folders_below(scratch):  # its files are flushed: their names, too, before they are moved
                flush_folder(folder)
            _replace(data_folder, scratch, aside, _parts(manifest))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return manifest, aside
    finally:
        lock.release()


def _workers_are_alive() -> bool:
    return Worker._meta.db_table in connection.introspection.table_names() and bool(alive_hosts())


def _check(manifest: dict[str, Any], scratch: Path) -> None:
    if manifest["database"] != database.member_name():
        kind = "PostgreSQL" if manifest["database"] == database.POSTGRESQL else "SQLite"
        raise CannotRestore(f"The backup is of an installation that uses {kind}, but this installation uses another "
                            "kind of database. Set NNIWEB_DATABASE_URL accordingly.")
    known = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
    newer = [name for name in manifest["migrations"] if name not in known]
    if newer:
        raise CannotRestore(f"The backup was made by a newer version of NNI Web (it has {newer[-1]}). Restore it with "
                            "that version.")
    if manifest["database"] == database.SQLITE:
        database.check_sqlite(scratch / database.SQLITE)
        database.empty_not_kept(scratch / database.SQLITE)
    if not _is_kept_here() and manifest["installation"] != settings.INSTALLATION_ID:
        raise CannotRestore(f"NNIWEB_INSTALLATION differs from the backup's ({manifest['installation']}), so keepers "
                            "of running trials would not accept the restored server. Set it to the backup's value, or "
                            "remove it.")
    if KEYS in _parts(manifest) and not (scratch / KEYS / "seal_keys").exists() and not opens_secrets(manifest):
        raise CannotRestore("The secrets in the backup are encrypted with keys from NNIWEB_SEAL_KEYS, which are not "
                            "set here. Set NNIWEB_SEAL_KEYS to the same keys first.")


def _parts(manifest: dict[str, Any]) -> frozenset[str]:
    """Which folders are in the backup; those of the first format held all."""
    return frozenset(manifest.get("holds", FOLDERS))


def _is_kept_here() -> bool:
    """Whether the installation's name is the data folder's, and not the environment's."""
    with contextlib.suppress(OSError):
        return (Path(settings.DATA_FOLDER) / KEYS / "installation").read_text().strip() == settings.INSTALLATION_ID
    return False


def opens_secrets(manifest: dict[str, Any]) -> bool:
    """Whether the keys of this installation open the secrets of the backup."""
    return set(manifest["seal_keys"]) <= set(seal_key_marks())


def has_own_keys(manifest: dict[str, Any]) -> bool:
    """Whether the keys were in the backup."""
    return KEYS in _parts(manifest)


def _name_of(folder: Path) -> Path:
    """Where the installation's name stands: not secret, and the keepers of its trials obey no other."""
    return folder / "installation-name"


def make_aside(data_folder: Path, now: datetime) -> Path:
    """A new folder for what was there: beside the data folder, or in it where nothing can be moved to its side."""
    name = f"before-restore-{now:%Y%m%d-%H%M%S}"
    aside = data_folder.with_name(f"{data_folder.name}.{name}")
    try:
        if data_folder.stat().st_dev != data_folder.parent.stat().st_dev:
            raise OSError(f"{data_folder} is a file system of its own")  # into another one nothing can be moved
        aside.mkdir(mode=0o700)
    except OSError:  # or the folder around it belongs to somebody else, as /var/lib does
        aside = data_folder / name
        aside.mkdir(mode=0o700)
    if database.member_name() == database.POSTGRESQL:
        database.copy_to(aside / database.POSTGRESQL)
    return aside


def _replace(data_folder: Path, scratch: Path, aside: Path | None, parts: frozenset[str]) -> None:
    """Move the old things out and the new ones in, the database last; undone in reverse where something fails.

    Where it is killed in between a note says so, and no server starts on what is there.
    """
    note = data_folder / RESTORING
    before = note.read_text() if note.exists() else None
    with tempfile.TemporaryDirectory(dir=data_folder, prefix=".restore-old-") as unwanted:
        moves = _Moves()
        try:
            note.write_text(f"{before or ''}{aside or ''}\n")
            flush_file(str(note))
            flush_folder(str(data_folder))
            # keys that were only just made, where there was no installation, are kept by nobody
            _exchange(moves, data_folder, scratch, aside or Path(unwanted), parts)
            moves.flush()
        except BaseException:
            moves.undo()
            if before is None:
                note.unlink(missing_ok=True)
            else:  # of one that was interrupted earlier
                note.write_text(before)
            if aside is not None:
                with contextlib.suppress(OSError):  # what could not be brought back stays there
                    (aside / database.POSTGRESQL).unlink(missing_ok=True)
                    aside.rmdir()
            raise
        note.unlink()
        flush_folder(str(data_folder))


def _folders_below(folder: Path) -> list[str]:
    return [parent for parent, _, _ in os.walk(folder)]


class _Moves:
    """Renames that can be undone."""

    def __init__(self) -> None:
        self._done: list[tuple[Path, Path]] = []

    def move(self, source: Path, goal: Path) -> None:
        goal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(source, goal)
        self._done.append((source, goal))

    def undo(self) -> None:
        for source, goal in reversed(self._done):
            os.rename(goal, source)

    def flush(self) -> None:
        """Have all of them survive a loss of power."""
        for folder in sorted({str(parent) for source, goal in self._done for path in (source, goal)
                              for parent in (path.parent, path.parent.parent) if parent.is_dir()}):
            flush_folder(folder)


def _exchange(moves: _Moves, data_folder: Path, scratch: Path, old: Path, parts: frozenset[str]) -> None:
    # clusters stay where they are even when the old installation is moved aside: running local trials are in them
    whole = [name for name in FOLDERS if name != CLUSTERS and name in parts]
    for name in whole:
        if (data_folder / name).exists():
            moves.move(data_folder / name, old / name)
    for name in whole:
        if (scratch / name).exists():
            moves.move(scratch / name, data_folder / name)
    if KEYS not in parts and _is_kept_here() and _name_of(scratch).read_text() != settings.INSTALLATION_ID:
        present = data_folder / KEYS / "installation"
        if present.exists():
            moves.move(present, old / KEYS / "installation")
        moves.move(_name_of(scratch), present)
    for file in plain_files(scratch / CLUSTERS):
        goal = data_folder / file.relative_to(scratch)
        if not goal.exists():
            moves.move(file, goal)
    if database.member_name() == database.POSTGRESQL:
        database.put_back_postgresql(scratch / database.POSTGRESQL)
        return
    present = Path(settings.DATABASES["default"]["NAME"])
    for path in (present.with_name(f"{present.name}{suffix}") for suffix in ("", "-wal", "-shm")):
        if path.exists():
            moves.move(path, old / path.name)
    moves.move(scratch / database.SQLITE, present)

