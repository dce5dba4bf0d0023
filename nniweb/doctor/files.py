"""The data folder, its keys, whose they are, and the room on its disk."""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from nniweb.doctor.findings import Finding, warning, well, wrong
from nniweb.experiments.room_to_write import little_room
from nniweb.own_files import START

#: With fewer free entries in the file system's table of files, soon none can be made, whatever room there is.
FEW_FILES = 1000
_ROOM = "docs/how-to-debug.md (\"The disk is full\") says what takes room. NNIWEB_LOW_SPACE_MB is where this begins."


def folder() -> Iterator[Finding]:
    """Whether the server can use its data folder; who else may is a system check's question."""
    path = Path(settings.DATA_FOLDER)
    if not path.is_dir():
        yield wrong("data folder", f"There is no {path}: no server was ever started with this data folder.",
                    f"Start one ({START}), or name the folder of yours with NNIWEB_DATA.")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield wrong("data folder", f"{_own_name()} may not read and write {path}.",
                    f"Run this as {_owner(path)}, who owns it, or give it to the server's user: chown -R USER {path}")
        return
    strangers = [file for file in _server_files(path) if file.stat().st_uid != path.stat().st_uid]
    if strangers:
        yield wrong("data folder", f"{strangers[0]} belongs to {_owner(strangers[0])}, the folder to {_owner(path)}"
                                   f"{_and_more(strangers)}; probably a command was once given as another user.",
                    f"chown -R {_owner(path)} {path}, and give all commands as {_owner(path)}.")
    else:
        yield well("data folder", f"{path} can be read and written.")


def keys() -> Iterator[Finding]:
    """The files with keys: there, not empty, and for their owner only."""
    path = Path(settings.DATA_FOLDER) / "keys"
    if not path.parent.is_dir():
        return
    names = ["installation", *(["seal_keys"] if not settings.SEAL_KEYS else []), "secret_key"]
    faults = []
    for file in (path / name for name in names):
        if not file.is_file():
            faults.append(warning("keys", f"{file} is missing; the next start makes a new one.", (
                "If this installation was in use, bring the file back from a backup before that: without its old keys "
                "stored secrets cannot be opened, and running trials do not know their server.")))
        elif not file.stat().st_size:
            faults.append(wrong("keys", f"{file} is empty.", "Bring it back from a backup. If nobody used this "
                                "installation yet, remove the file; the next start makes a new one."))
        elif stat.S_IMODE(file.stat().st_mode) & 0o077:
            faults.append(warning("keys", f"{file} may be read by others than its owner.", f"chmod 600 {file}"))
    yield from faults or [well("keys", "They are there, for their owner only.")]


def disk() -> Iterator[Finding]:
    if not Path(settings.DATA_FOLDER).is_dir():
        return
    table = os.statvfs(settings.DATA_FOLDER)
    if said := little_room():
        never = "" if any(settings.KEEP_DAYS.values()) else (
            " Nothing is ever removed here by itself: NNIWEB_KEEP_OUTPUT_DAYS and the like change that "
            "(docs/retention.md).")
        yield warning("disk", said, f"Make room. {_ROOM}{never}")
    elif table.f_files and table.f_favail < FEW_FILES:
        yield warning("disk", f"The file system of {settings.DATA_FOLDER} can hold only {table.f_favail} more files.",
                      f"Remove files there. {_ROOM}")
    else:
        yield well("disk", f"{table.f_bavail * table.f_frsize / 1e9:.1f} GB are free in {settings.DATA_FOLDER}.")


def _server_files(path: Path) -> Iterator[Path]:
    """What the server itself must be able to write. Trials' own files may belong to others (``runAs``)."""
    yield from (file for file in path.iterdir() if file.is_file())
    yield from (part for name in ("keys", "files", "static", "clusters") if (part := path / name).exists())
    yield from (path / "keys").glob("*")


def _and_more(files: list[Path]) -> str:
    return f", and {len(files) - 1} more like it" if len(files) > 1 else ""


def _owner(path: Path) -> str:
    return _name_of(path.stat().st_uid)


def _own_name() -> str:
    return _name_of(os.geteuid())


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in containers
        return f"the user with the number {uid}"
