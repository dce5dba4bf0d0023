"""Where backups of this installation were written to: nobody may name these places as code of an experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

_LIST = "backups.txt"
#: The newest ones that are still there are remembered.
MOST = 1000


def known_backups() -> list[Path]:
    """Backups that are still where they were written."""
    return [path for path in _noted() if path.exists()]


def note_backup(path: Path) -> None:
    """Remember a backup. One inside the data folder needs none of it. Raises OSError."""
    path = path.absolute()
    if path.resolve().is_relative_to(Path(settings.DATA_FOLDER).resolve()):
        return
    kept = [known for known in known_backups() if known != path][-(MOST - 1):]
    file = Path(settings.DATA_FOLDER) / _LIST
    draft = file.with_name(f".{_LIST}.{os.getpid()}")
    draft.write_bytes(b"".join(os.fsencode(known) + b"\0" for known in (*kept, path)))
    draft.replace(file)


def _noted() -> Iterator[Path]:
    try:
        content = (Path(settings.DATA_FOLDER) / _LIST).read_bytes()
    except OSError:
        return
    for name in content.split(b"\0"):
        if name:
            yield Path(os.fsdecode(name))
