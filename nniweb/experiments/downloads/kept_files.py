"""Reading files that were kept of trials, and whether they are still as they came."""

import hashlib

from django.core.files.storage import default_storage

from nniweb.experiments.models import TrialFile


class KeptFileDamaged(Exception):
    """What lies on the disk is not what the keeper sent. The sentence says so."""


def hash_of_content(content: bytes) -> str:
    """As it stands in ``TrialFile.sha256``."""
    return hashlib.sha256(content).hexdigest()


def content_of(kept: TrialFile) -> bytes:
    """The content, which is at most 64 MiB. Raises FileNotFoundError, KeptFileDamaged."""
    with default_storage.open(kept.storage_path) as file:
        content: bytes = file.read()
    # files of before hashes were kept have none: their size is all that is known
    if len(content) != kept.size or kept.sha256 and hash_of_content(content) != kept.sha256:
        raise KeptFileDamaged(f"The file {kept.name} was damaged on the server's disk: {kept.size} bytes were stored, "
                              f"and the {len(content)} bytes that are there now differ from them. Restore it from a "
                              "backup (docs/backup.md), or run the trial again.")
    return content
