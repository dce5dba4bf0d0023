"""The data folder, its keys, whose they are, the room on its disk, and whether what is kept in it is whole."""

import os
import pwd
import stat
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage

from nniweb.doctor.findings import Finding, warning, well, wrong
from nniweb.environment import text
from nniweb.experiments.models import CodeArchive, CodeVariant, TrialFile
from nniweb.experiments.sql.database_health import little_room
from nniweb.storage.data_folder import why_half_restored
from nniweb.storage.elsewhere import StorageFailed, elsewhere, files_here
from nniweb.storage.own_files import COMMAND, START
from trainingservice.keeper.keeper_bundle import bundle_name, compiled_keeper_bytes
from trialkeeper.nni_for_trials import damaged_files

#: With fewer free entries in the file system's table of files, soon none can be made, whatever room there is.
FEW_FILES = 1000
#: Seconds for which kept files are looked at: there may be very many.
FILES_SECONDS = 20.0
#: Files that wait to be moved to a storage elsewhere are counted up to so many.
MOST_WAITING = 10_000
_ROOM = ("docs/how-to-debug.md (\"The disk is full\") explains what uses the space. NNIWEB_LOW_SPACE_MB is the limit "
         "for this finding.")


def folder() -> Iterator[Finding]:
    """Whether the server can use its data folder; who else may is a system check's question."""
    path = Path(settings.DATA_FOLDER)
    if not path.is_dir():
        yield wrong("data folder", f"{path} does not exist: no server was started with this data folder yet.",
                    f"Start one ({START}), or set NNIWEB_DATA to the data folder of your installation.")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield wrong("data folder", f"{_own_name()} may not read and write {path}.",
                    f"Run this command as {_owner(path)}, the owner of the folder, or change its owner to the server's "
                    f"user: chown -R USER {path}")
        return
    if half := why_half_restored(path):
        yield wrong("data folder", half, "docs/backup.md describes how a backup is restored.")
    strangers = [file for file in _server_files(path) if file.stat().st_uid != path.stat().st_uid]
    if strangers:
        yield wrong("data folder", f"{strangers[0]} belongs to {_owner(strangers[0])}, but the folder belongs to "
                                   f"{_owner(path)}{_and_more(strangers)}. Probably a command was run as another user.",
                    f"chown -R {_owner(path)} {path}, and run all commands as {_owner(path)}.")
    else:
        yield well("data folder", f"{path} can be read and written.")


def keys() -> Iterator[Finding]:
    """The files with keys: there, not empty, and for their owner only. Keys of the environment have no files."""
    path = Path(settings.DATA_FOLDER) / "keys"
    if not path.parent.is_dir():
        return
    names = [name for name in ("installation", "seal_keys", "secret_key") if not text(f"NNIWEB_{name.upper()}")]
    faults = []
    for file in (path / name for name in names):
        if not file.is_file():
            faults.append(warning("keys", f"{file} is missing. The next start creates a new one.", (
                "If this installation was in use, restore the file from a backup before the next start. Without the "
                "old keys, stored secrets cannot be decrypted, and running trials do not accept the server.")))
        elif not file.stat().st_size:
            faults.append(wrong("keys", f"{file} is empty.",
                                "Restore it from a backup. If this installation was not used yet, remove the file. The "
                                "next start creates a new one."))
        elif stat.S_IMODE(file.stat().st_mode) & 0o077:
            faults.append(warning("keys", f"{file} can be read by users other than its owner.", f"chmod 600 {file}"))
    yield from faults or [well("keys", "All key files exist, and only their owner can read them.")]


def disk() -> Iterator[Finding]:
    """Whether the data folder's file system has room for bytes and for files."""
    if not Path(settings.DATA_FOLDER).is_dir():
        return
    table = os.statvfs(settings.DATA_FOLDER)
    if said := little_room():
        never = "" if any(settings.KEEP_DAYS.values()) else (
            " This installation removes no old data. Set NNIWEB_KEEP_OUTPUT_DAYS and similar settings to change that "
            "(docs/retention.md).")
        yield warning("disk", said, f"Free disk space. {_ROOM}{never}")
    elif table.f_files and table.f_favail < FEW_FILES:
        yield warning("disk", f"The file system of {settings.DATA_FOLDER} has room for only {table.f_favail} more "
                              "files.",
                      f"Remove files there. {_ROOM}")
    else:
        yield well("disk", f"{table.f_bavail * table.f_frsize / 1e9:.1f} GB are free in {settings.DATA_FOLDER}.")


def keepers() -> Iterator[Finding]:
    """What the agents of this machine run, and the module that they give to trials."""
    damaged: list[str] = []
    # those of other versions are used by nobody any more
    bundles = sorted(Path(settings.DATA_FOLDER).glob(f"clusters/*/agent*/**/{bundle_name()}"))
    for bundle in bundles:
        whole = bundle.read_bytes() == compiled_keeper_bytes()
        damaged += damaged_files(str(bundle)) if whole else [str(bundle)]
    if damaged:
        more = f", and {len(damaged) - 1} more files" if len(damaged) > 1 else ""
        yield wrong("keeper", f"{damaged[0]} is damaged{more}, possibly by a power failure. Trials on this machine "
                              "fail because of this.",
                    "Restart the server. The agent compares its files when it starts, and replaces damaged ones.")
    elif bundles:
        yield well("keeper", "The files of the keeper on this machine are undamaged.")


def stored() -> Iterator[Finding]:
    """Whether kept files and code archives are there, as long as they were; their content is compared when it is read.
    """
    try:
        yield from _stored()
    except StorageFailed as error:
        yield wrong("file storage", f"The storage of NNIWEB_FILE_STORAGE {error.what}: {error}", (
            "Check NNIWEB_FILE_STORAGE_OPTIONS and the storage itself (docs/file-storage.md). Until it answers, files "
            "of trials are stored later, and trials wait for their code."))


def _stored() -> Iterator[Finding]:
    if (storage := elsewhere()) is not None:
        storage.ask()
        here = files_here(Path(settings.DATA_FOLDER) / "files")
        if waiting := len(list(islice(here, MOST_WAITING))):
            more = "at least " if waiting == MOST_WAITING else ""
            yield warning("file storage", f"{more}{waiting} files wait in the data folder to be moved to the storage.",
                          f"Move them: {COMMAND} move-files. Servers on other machines cannot read them before that.")
    gives_up_at = time.monotonic() + FILES_SECONDS
    code = [archive.storage_path for archive in CodeArchive.objects.order_by("pk").iterator()
            if time.monotonic() < gives_up_at and _size_of(archive.storage_path) != archive.size]
    variants = [variant.storage_path for variant in
                CodeVariant.objects.filter(removed_at=None).order_by("pk").iterator()
                if time.monotonic() < gives_up_at and _size_of(variant.storage_path) != variant.size]
    kept = [f"{file.name} of trial {file.attempt.trial.public_id}" for file in
            TrialFile.objects.select_related("attempt__trial").order_by("-pk").iterator()
            if time.monotonic() < gives_up_at and _size_of(file.storage_path) != file.size]
    if code:
        yield warning("code archives", f"{len(code)} of them, such as {code[0]}, are missing or damaged.", (
            "If the code folder still has the same code, the archive is created again when a trial needs it. Otherwise "
            "launch the same code again, or restore the file from a backup (docs/backup.md)."))
    if variants:
        yield warning("code variants", f"{len(variants)} of them, such as {variants[0]}, are missing or damaged.", (
            "Submit a trial with the same variant again, or restore the file from a backup (docs/backup.md)."))
    if kept:
        yield warning("kept files", f"{len(kept)} of them, such as {kept[0]}, are missing or damaged.",
                      "Restore them from a backup (docs/backup.md), or run the trials again.")
    if not code and not kept and not variants:
        yield well("stored files", "All code archives and kept files exist." if time.monotonic() < gives_up_at else
                   f"The files that could be checked within {FILES_SECONDS:.0f} seconds all exist.")


def _size_of(storage_path: str) -> int | None:
    try:
        return default_storage.size(storage_path)
    except StorageFailed:
        raise
    except OSError:
        return None


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
