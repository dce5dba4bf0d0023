"""Files in a storage that is no folder of this machine, such as an object storage: its errors, and whether it answers.

What goes wrong there is an OSError, as on a disk: ``StorageFailed``, whatever the library of the storage raises. A
storage that has just kept somebody waiting is not asked again for some seconds, so that it holds up one request and
not all of them. Any thread.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage, Storage, default_storage
from django.utils.module_loading import import_string

from trainingservice.lasting_thread import Part

logger = logging.getLogger(__name__)

#: A failure that took longer, in seconds, is that of a storage that does not answer.
SLOW_SECONDS = 2.0
#: For how long such a storage is not asked again, in seconds.
PAUSE_SECONDS = 10.0
#: How old an answer may be before ``look`` asks for another one, in seconds.
FRESH_SECONDS = 30.0
#: Bytes of a file that are held in memory while it is read; larger ones go into a temporary file.
IN_MEMORY = 8 * 1024 * 1024
#: Codes of S3 and of HTTP that say that the keys are not accepted, or may not do this.
_REFUSED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken",
            "InvalidClientTokenId", "401", "403", "Forbidden", "Unauthorized")
_NO_BUCKET = "NoSuchBucket"
_PROBE = "nniweb-probe"


class StorageFailed(OSError):
    """A storage elsewhere does not answer, or refuses. The text is for the log.

    ``what``: what it does, in words that everybody may read.
    """

    def __init__(self, text: str, what: str = "failed") -> None:
        super().__init__(text)
        self.what = what

    def __str__(self) -> str:
        return str(self.args[0])


class StorageElsewhere(Storage):
    """Another storage of Django's, asked with bounds. Raises FileNotFoundError and StorageFailed alone.

    A file that is not there yet is read from ``folder``, where files of before the storage was set wait to be moved.
    """

    #: How this process last found it. There is one storage of files.
    part = Part("file storage")

    def __init__(self, backend: str, options: Mapping[str, Any], folder: str = "") -> None:
        """``backend``: dotted name of a storage class; ``options``: its arguments. Raises what the class raises."""
        self._storage: Storage = import_string(backend)(**options)
        self._folder = FileSystemStorage(location=folder) if folder else None
        self._silent_until = self._asked_at = float("-inf")
        self._looking = threading.Lock()

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        """The name itself: names of ours say what is in the file, or are found at random."""
        return name

    def exists(self, name: str) -> bool:
        with self._asked():
            found = bool(self._storage.exists(name))
        return found or self._waits_here(name)

    def size(self, name: str) -> int:
        try:
            with self._asked():
                return int(self._storage.size(name))
        except FileNotFoundError:
            if self._folder is None or not self._waits_here(name):
                raise
            return self._folder.size(name)

    def delete(self, name: str) -> None:
        """Harmless where there is none."""
        with self._asked(), contextlib.suppress(FileNotFoundError):
            self._storage.delete(name)
        if self._folder is not None:
            with contextlib.suppress(FileNotFoundError):
                self._folder.delete(name)

    def open_there(self, name: str) -> File[Any]:
        """A file of the storage itself, whatever waits to be moved."""
        with self._asked():
            return self._fetched(name)

    def put(self, name: str, content: File[Any]) -> None:
        """Store it in the place of what the storage itself may have under this name."""
        with self._asked(), contextlib.suppress(FileNotFoundError):
            self._storage.delete(name)
        self._save(name, content)

    def ask(self) -> None:
        """Raises StorageFailed where it does not answer, refuses, or has no such bucket."""
        with contextlib.suppress(FileNotFoundError), self._asked():
            self._storage.open(_PROBE).close()

    def look(self) -> None:
        """Have it asked, by another thread, whether it answers; not where that is known already."""
        if time.monotonic() - self._asked_at < FRESH_SECONDS or not self._looking.acquire(blocking=False):
            return

        def ask() -> None:
            try:
                with contextlib.suppress(StorageFailed):
                    self.ask()
            finally:
                self._looking.release()

        try:
            threading.Thread(target=ask, name="look at the file storage", daemon=True).start()
        except BaseException:
            self._looking.release()
            raise

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        try:
            with self._asked():
                return self._fetched(name)
        except FileNotFoundError:
            if self._folder is None or not self._waits_here(name):
                raise
            return self._folder.open(name, mode)

    def _fetched(self, name: str) -> File[Any]:
        source = self._storage.open(name)
        if isinstance(source.file, io.BytesIO | tempfile.SpooledTemporaryFile):
            return source
        # others fetch when they are read, which is when nobody expects errors of a network
        copy = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # whoever opened the file closes it
        try:
            with source:
                shutil.copyfileobj(source, copy, 256 * 1024)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return File(copy, name)

    def _save(self, name: str, content: File[Any]) -> str:
        size = content.size
        with self._asked():
            kept = self._storage.save(name, content)
            if kept != name:  # somebody else has stored the same meanwhile
                self._storage.delete(kept)
            if (stored := int(self._storage.size(name))) != size:
                self._storage.delete(name)
                raise StorageFailed(f"The storage of files kept {stored} of {size} bytes of {name}.",
                                    "kept only a part of a file")
        return name

    def _waits_here(self, name: str) -> bool:
        return self._folder is not None and self._folder.exists(name)

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        began = self._asked_at = time.monotonic()
        if began < self._silent_until:
            raise StorageFailed("The storage of files did not answer and is asked again within "
                                f"{PAUSE_SECONDS:.0f} seconds.", "does not answer")
        try:
            yield
        except (FileNotFoundError, NotImplementedError):
            self._answers()
            raise
        except Exception as error:  # each storage has errors of its own
            failed = error if isinstance(error, StorageFailed) else StorageFailed(
                f"The storage of files {_what(error)}: {type(error).__name__}: {error}", _what(error))
            if time.monotonic() - began > SLOW_SECONDS:
                self._silent_until = time.monotonic() + PAUSE_SECONDS
            if not self.part.trouble:
                logger.warning("%s", failed)
            self.part.is_in_trouble(f"The storage of files {failed.what}. {_ADVICE} The log has its error.")
            raise failed from error
        self._answers()

    def _answers(self) -> None:
        if self.part.trouble:
            logger.info("The storage of files answers again.")
            self.part.is_well()


_ADVICE = ("Files of trials are stored later, trials whose code is not on the worker's machine wait, and files cannot "
           "be read. Check NNIWEB_FILE_STORAGE, its options, and the storage itself.")


def is_elsewhere() -> bool:
    """Whether code archives and kept files lie in a storage that is no folder of this machine."""
    return elsewhere() is not None


def elsewhere() -> StorageElsewhere | None:
    """That storage; None where they lie in the data folder."""
    return default_storage._wrapped if isinstance(  # type: ignore[attr-defined]  # of LazyObject
        default_storage, StorageElsewhere) else None


def check_answers() -> None:
    """Before a transaction that removes files: whether the storage answers. Raises StorageFailed. Nothing where files
    lie in a folder of this machine.
    """
    if (storage := elsewhere()) is not None:
        storage.ask()


def files_here(folder: Path) -> Iterator[Path]:
    """Whole files below the folder, those of one folder after another; none that is still being written."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".draft"):
            yield path


def _what(error: Exception) -> str:
    """What a storage does that raised this, in words that name nothing of it."""
    response = getattr(error, "response", None)
    said = response.get("Error", {}) if isinstance(response, dict) else {}
    codes = {str(getattr(error, "code", "")), str(said.get("Code", "") if isinstance(said, dict) else "")}
    if codes & set(_REFUSED):
        return "does not accept the credentials, or they may not do this"
    if _NO_BUCKET in codes:
        return "has no such bucket"
    if isinstance(error, OSError) or any(word in type(error).__name__ for word in ("Timeout", "Connect", "Retry")):
        return "does not answer"
    return "failed"
