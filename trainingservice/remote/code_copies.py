"""The code of experiments on one machine: one archive per content hash; each trial unpacks its own copy from it."""

from __future__ import annotations

import hashlib
import logging
import posixpath
import stat
import threading
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from trainingservice.code.code_archive import archive_of
from trainingservice.errors import PermanentError
from trainingservice.remote.first_contact import cannot_write, make_folders
from trainingservice.ssh.connection import Connection, is_broken
from trainingservice.ssh.problems import MachineProblem
from trainingservice.trial_job import TrialCode
from trainingservice.words.byte_size import byte_size
from trialkeeper import contract

logger = logging.getLogger(__name__)

_PIECE = 1024 * 1024
_SUFFIX = ".tar.gz"


class CodeCopies:
    """The folder ``code`` of one cluster on one machine. For one thread at a time."""

    def __init__(self, scratch: Path) -> None:
        """``scratch``: a folder on this machine for code that comes as a folder, not as an archive."""
        self._scratch = scratch
        self._packing = threading.Lock()

    def ensure(self, connection: Connection, folder: str, code: TrialCode,
               progress: Callable[[str], None]) -> contract.CodeDocument:
        """Have the code on the machine. Raises PermanentError (there is no such code), MachineProblem.

        ``progress`` is told a sentence now and then while much is sent.
        """
        with self._packing:
            archive, sha256 = archive_of(code, self._scratch)
        path = posixpath.join(folder, sha256 + _SUFFIX)
        self._send_if_absent(connection, archive, sha256, path, progress)
        return {"sha256": sha256, "archive": path}

    def _send_if_absent(self, connection: Connection, archive: Path, sha256: str, path: str,
                        progress: Callable[[str], None]) -> None:
        # asked each time: whoever has the account there may have cleaned up
        size = archive.stat().st_size
        partial = f"{path}.{uuid.uuid4().hex[:8]}.part"
        digest = hashlib.sha256()
        with connection.sftp() as sftp:
            try:
                try:
                    if sftp.stat(path).st_size == size:
                        return
                except FileNotFoundError:
                    make_folders(sftp, posixpath.dirname(path))
                with archive.open("rb") as source, sftp.open(partial, "wb") as target:
                    target.set_pipelined(True)
                    sent = 0
                    while piece := source.read(_PIECE):
                        digest.update(piece)
                        target.write(piece)
                        sent += len(piece)
                        if size > 4 * _PIECE:
                            progress(f"The code is being sent to {connection.name}: {100 * sent // size} % of "
                                     f"{byte_size(size)}.")
                if digest.hexdigest() != sha256:
                    raise PermanentError(f"The code archive {archive} is damaged: its content does not match the hash "
                                         "in its name. Launch the experiment again.")
                if sftp.stat(partial).st_size != size:
                    raise OSError("fewer bytes arrived than were sent; the disk may be full")
                sftp.posix_rename(partial, path)
            except OSError as error:
                if is_broken(error):
                    raise
                raise MachineProblem(cannot_write(connection.name, path, error), "disk") from error

    def clean(self, connection: Connection, folder: str, wanted: Collection[str]) -> None:
        """Remove the archives nobody has a trial for, and what broken transfers left. Raises MachineProblem."""
        with connection.sftp() as sftp:
            try:
                names = sftp.listdir(folder)
            except FileNotFoundError:
                return
            for name in names:
                sha256 = name.partition(".")[0]
                if sha256 not in wanted:
                    try:
                        sftp.remove(posixpath.join(folder, name))
                    except OSError as error:
                        logger.info("%s on %s cannot be removed: %s", name, connection.name, error)


def folders_in(connection: Connection, folder: str) -> list[str]:
    """The paths of the folders in a folder on the machine; [] where it is not there. Raises MachineProblem."""
    with connection.sftp() as sftp:
        try:
            found = sftp.listdir_attr(folder)
        except FileNotFoundError:
            return []
    return sorted(posixpath.join(folder, entry.filename) for entry in found if stat.S_ISDIR(entry.st_mode or 0))


def remove_folder(connection: Connection, folder: str) -> None:
    """Remove an empty folder; harmless where it is not there or not empty. Raises MachineProblem."""
    with connection.sftp() as sftp:
        try:
            sftp.rmdir(folder)
        except OSError:
            return
