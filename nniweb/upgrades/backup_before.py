"""The backup of the database that is made before it is changed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from django.conf import settings

from nniweb import __version__
from nniweb.backups import database
from nniweb.backups.taking import DATABASE, discard, expected, take
from nniweb.storage.data_folder import prepare

#: How many of these backups are kept.
KEPT = 3
#: How much room a backup takes while it is made (a copy, and the file that it is packed into), and the change after it,
#: as multiples of the database's size.
ROOM = 3.0
_PATTERN = "before-*.tar.gz"
_OWN_CHOICE = "or, if you have your own backup, set NNIWEB_UPGRADE_BACKUP=0 for this start"


class NoBackup(Exception):
    """It could not be made; the sentence says why, and what to do. The database must not be changed then."""


def folder() -> Path:
    return Path(settings.DATA_FOLDER) / "backups"


def newest() -> Path | None:
    """The newest one, None where there is none."""
    found = _all()
    return found[-1] if found else None


def make(now: datetime, say: Callable[[str], None]) -> Path | None:
    """Back the database up; None where it holds nothing or where NNIWEB_UPGRADE_BACKUP=0 says so. Raises NoBackup."""
    if not database.is_used() or not settings.UPGRADE_BACKUP:
        return None
    try:
        prepare(folder())
        _remove_what_killed_starts_left()
        _need_room()
        path = folder() / f"before-{__version__}-{now:%Y%m%d-%H%M%S}.tar.gz"
        say(f"The database has an older version. It is backed up to {path} before the upgrade. {expected([DATABASE])}")
        take(path, now, [DATABASE], say=say)
    except database.CannotCopy as error:
        raise NoBackup(f"The database must be upgraded, but the backup before the upgrade failed: {error} Correct "
                       f"that, {_OWN_CHOICE}. Nothing was changed.") from None
    except OSError as error:
        raise NoBackup(f"The database must be upgraded, but its backup cannot be written to {folder()}: "
                       f"{error.strerror or error}. Correct that, {_OWN_CHOICE}. Nothing was changed.") from None
    return path


def remove_old_ones() -> None:
    """Keep the newest ``KEPT``."""
    for path in _all()[:-KEPT]:
        path.unlink(missing_ok=True)


def _remove_what_killed_starts_left() -> None:
    """Each start makes a backup of another name, so what one was killed at is not gone on with. Raises OSError."""
    remove_old_ones()
    for left in folder().glob(f".{_PATTERN}.partial"):
        with contextlib.suppress(database.CannotCopy):  # not ours: it stays
            discard(left.with_name(left.name[1:].removesuffix(".partial")))


def _all() -> list[Path]:
    return sorted(folder().glob(_PATTERN), key=lambda path: path.name[-len("20270101-000000.tar.gz"):])


def _need_room() -> None:
    need, have = ROOM * database.size(), shutil.disk_usage(folder()).free
    if have < need:
        raise NoBackup(f"The database must be upgraded. The backup before the upgrade needs {_megabytes(need)} in "
                       f"{folder()}, where {_megabytes(have)} are free. Free disk space, {_OWN_CHOICE}. Nothing was "
                       "changed.")


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"
