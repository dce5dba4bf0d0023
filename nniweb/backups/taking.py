"""Takes a backup, while the server runs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from django.conf import settings

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.archive import BackupWriter, plain_files
from nniweb.backups.secrets_in_words import stored_secrets
from nniweb.experiments.secrets import sealing
from nniweb.experiments.sql.schema_version import is_of_this_version
from nniweb.storage.backup_places import note_backup

#: What is kept of the data folder beside the database. Of a cluster's folder: not what belongs to this machine's
#: running trials and agent, nor what is made again when it is needed.
KEYS, FILES, CLUSTERS, CHECKPOINTS = FOLDERS = ("keys", "files", "clusters", "checkpoints")
DATABASE = "database"
#: What a backup holds unless more, or less, is asked for.
USUALLY = (DATABASE, FILES, CLUSTERS, CHECKPOINTS)
NOT_OF_CLUSTERS = ("trials", "agent", "agents", "code", "keepers", "snapshots")


def take(path: Path, now: datetime, parts: Sequence[str] = USUALLY) -> list[str]:
    """Write a backup to ``path``, whole or not at all. Returns the names of files that went away meanwhile.

    ``parts``: DATABASE, and which of FOLDERS go with it. Raises OSError and CannotCopy.
    """
    writer = BackupWriter(path)
    try:
        # the database first: a file is there before a row that needs it, and stays as long
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            copy = Path(scratch) / "database"
            applied, secrets = database.migrations(), stored_secrets() if is_of_this_version() else []
            database.copy_to(copy)
            writer.add(copy, database.member_name())
        for file in _files(settings.DATA_FOLDER, parts):
            writer.add(file, str(file.relative_to(settings.DATA_FOLDER)))
        writer.finish({"installation": settings.INSTALLATION_ID, "taken_at": now.isoformat(), "version": __version__,
                       "holds": sorted(parts), "database": database.member_name(), "migrations": applied,
                       "seal_keys": seal_key_marks(), "secrets": secrets})
        note_backup(path)
    except BaseException:
        writer.give_up()
        raise
    return writer.gone


def _files(data_folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    for name in (name for name in FOLDERS if name in parts):
        for file in plain_files(data_folder / name):
            names = file.relative_to(data_folder).parts
            if name != CLUSTERS or len(names) < 3 or names[2] not in NOT_OF_CLUSTERS:
                yield file


def seal_key_marks() -> list[str]:
    """By which it is seen whether keys are the same, without being told them."""
    return [hashlib.sha256(f"seal key {key}".encode()).hexdigest()[:16] for key in sealing.current_keys()]
