"""Code folders as they were at launch: kept once per content, shared by all who have the same."""

import tempfile
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage

from nniweb.experiments.models import CodeArchive
from trainingservice.code_archive import pack_code


def keep_folder(folder: Path, now: datetime) -> CodeArchive:
    """Pack a folder (less .nniignore) and keep the archive. Raises trainingservice's PermanentError over the limits."""
    with tempfile.TemporaryDirectory(dir=settings.DATA_FOLDER) as scratch:
        packed = pack_code(folder, Path(scratch))
        return keep_archive(packed.path, packed.sha256, packed.file_count, now)


def keep_archive(path: Path, sha256: str, file_count: int, now: datetime) -> CodeArchive:
    """Keep an archive that was packed already."""
    storage_path = f"code/{sha256}.tar.gz"
    if not default_storage.exists(storage_path):
        with open(path, "rb") as file:
            default_storage.save(storage_path, File(file))
    archive, _ = CodeArchive.objects.update_or_create(
        sha256=sha256, defaults={"size": path.stat().st_size, "file_count": file_count, "last_used": now,
                                 "storage_path": storage_path})
    return archive


def local_path(archive: CodeArchive) -> Path:
    """A path of the archive on this machine; fetched into the data folder where the storage is elsewhere."""
    try:
        return Path(default_storage.path(archive.storage_path))
    except NotImplementedError:
        copy = settings.DATA_FOLDER / "cache" / Path(archive.storage_path).name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            draft = copy.with_suffix(".draft")
            with default_storage.open(archive.storage_path) as source, open(draft, "wb") as goal:
                for chunk in source.chunks():
                    goal.write(chunk)
            draft.replace(copy)
        return copy
