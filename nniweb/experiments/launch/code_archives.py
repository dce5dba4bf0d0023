"""Code folders as they were at launch: kept once per content, shared by all who have the same.

A file that was damaged (a bad disk, a power cut before files were flushed) is made again from what brought it: the next
launch of the same code, or the folder that it was packed from.
"""

import contextlib
import hashlib
import logging
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction

from nniweb.annotation.annotated_folder import pack_annotated
from nniweb.annotation.reading_process import RewrittenFiles
from nniweb.experiments.launch.stored_options import code_parts_of
from nniweb.experiments.models import CodeArchive, Experiment
from nniweb.storage.elsewhere import check_answers
from nniweb.storage.local_copies import CopyDamaged, local_copy, remove_copy
from trainingservice.cluster_settings import part_folders
from trainingservice.code.code_archive import pack_tree
from trainingservice.errors import TrainingServiceError

logger = logging.getLogger(__name__)

#: An archive without experiments is kept for so long: the same code is often launched again.
KEEP_UNUSED = timedelta(days=1)
#: Archives that one call of ``remove_unused`` looks at.
MOST_AT_ONCE = 100

#: Hashes of archives that are damaged and that this process could not make again: it does not try with each trial.
_given_up: set[str] = set()


def keep_folder(folder: Path, now: datetime, parts: Mapping[str, Path] = {}) -> CodeArchive:
    """Pack a folder (less .nniignore), or ``parts`` as ``code_tree`` has them, and keep the archive. Raises
    trainingservice's PermanentError over the limits.
    """
    with tempfile.TemporaryDirectory(dir=settings.DATA_FOLDER) as scratch:
        packed = pack_tree(folder, parts, Path(scratch))
        return keep_archive(packed.path, packed.sha256, packed.file_count, now)


def keep_annotated_folder(folder: Path, now: datetime, parts: Mapping[str, Path] = {}
                          ) -> tuple[CodeArchive, RewrittenFiles]:
    """The same with the annotations in the code carried out, and what was read from them. Also raises
    AnnotationsInvalid.
    """
    with tempfile.TemporaryDirectory(dir=settings.DATA_FOLDER) as scratch:
        packed, found = pack_annotated(folder, Path(scratch), parts)
        return keep_archive(packed.path, packed.sha256, packed.file_count, now), found


def keep_archive(path: Path, sha256: str, file_count: int, now: datetime) -> CodeArchive:
    """Keep an archive that was packed already. One that is kept, but damaged, is replaced."""
    storage_path = f"code/{sha256}.tar.gz"
    # the row first: it keeps ``remove_unused`` from taking the file away
    archive, _ = CodeArchive.objects.update_or_create(
        sha256=sha256, defaults={"size": path.stat().st_size, "file_count": file_count, "last_used": now,
                                 "storage_path": storage_path})
    if default_storage.exists(storage_path) and _hash_of(storage_path) != sha256:
        logger.warning("the code archive %s was damaged on the disk and is packed again", storage_path)
        default_storage.delete(storage_path)
    if not default_storage.exists(storage_path):
        with open(path, "rb") as file:
            default_storage.save(storage_path, File(file))
    return archive


def _hash_of(storage_path: str) -> str:
    digest = hashlib.sha256()
    with default_storage.open(storage_path) as file:
        for chunk in file.chunks(1024 * 1024):
            digest.update(chunk)
    return digest.hexdigest()


def remove_unused(now: datetime) -> int:
    """Remove archives that no experiment has had for ``KEEP_UNUSED``; returns how many. Raises StorageFailed."""
    removed = 0
    for archive in CodeArchive.objects.filter(experiment=None, last_used__lt=now - KEEP_UNUSED)[:MOST_AT_ONCE]:
        check_answers()  # no transaction waits for a storage that does not
        with transaction.atomic():
            # a no-op that locks the row, unless somebody has launched the same code since
            still = CodeArchive.objects.filter(pk=archive.pk, experiment=None, last_used=archive.last_used)
            if still.update(last_used=archive.last_used):
                archive.delete()
                default_storage.delete(archive.storage_path)
                remove_copy(archive.storage_path)
                removed += 1
    return removed


def local_path(archive: CodeArchive) -> Path:
    """A path of the archive on this machine; fetched into the data folder where the storage is elsewhere.

    Where the file is missing, or not as long as it was, it is made again first, if that can be done: whoever unpacks it
    compares its hash and says otherwise that it is damaged. Raises StorageFailed, and CopyDamaged or FileNotFoundError
    where the storage elsewhere has it no more and it cannot be made again.
    """
    try:
        path = local_copy(archive.storage_path, archive.size, archive.sha256)
    except (FileNotFoundError, CopyDamaged):
        if archive.sha256 in _given_up:
            raise
        _make_again(archive)
        return local_copy(archive.storage_path, archive.size, archive.sha256)
    if _size_of(path) != archive.size and archive.sha256 not in _given_up:
        _make_again(archive)
    return path


def _size_of(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None


def _make_again(archive: CodeArchive) -> None:
    sources = []
    for experiment in Experiment.objects.filter(code=archive).exclude(code_folder="").select_related("cluster"):
        source = Path(experiment.code_folder), part_folders(code_parts_of(experiment))
        if source not in sources:
            sources.append(source)
    for folder, parts in sources:
        try:
            with tempfile.TemporaryDirectory(dir=settings.DATA_FOLDER) as scratch:
                packed = pack_tree(folder, parts, Path(scratch))
                if packed.sha256 == archive.sha256:
                    keep_archive(packed.path, packed.sha256, packed.file_count, archive.last_used)
                    return
        except TrainingServiceError:
            continue  # there is no such code in it any more
        except OSError as error:  # a full disk, or a storage that does not answer: it is not given up
            logger.warning("the code archive %s is damaged or missing and cannot be made again now: %s",
                           archive.storage_path, error)
            return
    logger.error("the code archive %s is damaged or missing, and no folder has the same code any more; launch the "
                 "experiments that need it again", archive.storage_path)
    _given_up.add(archive.sha256)
