"""The code of an experiment as one tar.gz: the folder's content less what ``.nniignore`` leaves out.

The same content gives the same bytes: sorted names, no times, no owners, rights 755 or 644. Kept are
bytes, execute bits, empty folders and the ``.nniignore`` files themselves. Links:

* a link to something inside the folder stays a link (an absolute one becomes relative), also where
  what it points to is left out;
* a link that leaves the folder is followed and what it points to is copied, because the other
  machine does not have it (inside a folder copied so, links are followed as well; a circle is refused);
* a link to nothing is refused, with its name: a trial would miss it much later.

Sockets, pipes and devices are left out. The limits are NNI's: 2000 files (folders do not count) and
300 MiB after ignoring. The keeper has the counterpart that extracts safely.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import logging
import os
import stat
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainingservice.errors import PermanentError
from trainingservice.ignore_rules import IGNORE_FILE, IgnoreRules

if TYPE_CHECKING:  # packing needs nothing of a trial: programs that only pack need no pydantic
    from trainingservice.trial_job import TrialCode

logger = logging.getLogger(__name__)

MAX_FILES = 2000
MAX_BYTES = 300 * 1024 * 1024
#: Counting stops here, so that a whole home folder named by mistake is refused soon.
_COUNT_NO_FURTHER = 200_000


class CodeRefused(PermanentError):
    """The code folder cannot be packed: missing, unreadable, or with a link to nothing. The text says which file."""


class CodeTooLarge(CodeRefused):
    """More files or bytes than may be shipped. The text has the counts, the largest folders and the advice."""


@dataclass(frozen=True)
class CodeArchive:
    """A packed folder. ``size`` is that of the archive, ``content_bytes`` that of the files in it."""

    path: Path
    sha256: str
    size: int
    file_count: int
    content_bytes: int


@dataclass(frozen=True)
class CodeEntry:
    """One thing that is shipped: a file, a folder, or (with ``link``) a symbolic link. ``name`` has slashes."""

    name: str
    source: Path
    mode: int
    size: int = 0
    is_folder: bool = False
    link: str | None = None


def require_archive(code: TrialCode | None) -> None:
    """Raises PermanentError where the archive that shall be shipped is gone."""
    if code is not None and code.archive is not None and not code.archive.is_file():
        raise PermanentError(f"The code archive {code.archive} is not there any more; launch the experiment again.")


def archive_of(code: TrialCode, scratch: Path) -> tuple[Path, str]:
    """The archive of a trial's code and its hash; packed into ``scratch`` where only a folder is known.

    Raises PermanentError where there is neither, or the archive is gone.
    """
    if code.archive is not None and code.sha256 is not None:
        require_archive(code)
        return code.archive, code.sha256
    if code.folder is None:
        raise PermanentError("The trial has neither a code folder nor a code archive; set trialCodeDirectory.")
    packed = pack_code(code.folder, scratch)
    return packed.path, packed.sha256


def pack_code(folder: Path, target_folder: Path, *, max_files: int = MAX_FILES,
              max_bytes: int = MAX_BYTES) -> CodeArchive:
    """Pack ``folder`` as ``<sha256>.tar.gz`` in ``target_folder`` (made if need be).

    The file appears whole or not at all; one that is there already is used. Raises CodeRefused,
    CodeTooLarge; OSError where the target cannot be written.
    """
    entries = code_entries(folder, max_files=max_files, max_bytes=max_bytes)
    target_folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target_folder, prefix=".code-")
    try:
        with os.fdopen(handle, "wb") as stream:
            write_archive(entries, stream)
        with open(temporary, "rb") as packed:
            sha256 = hashlib.file_digest(packed, "sha256").hexdigest()
        size = os.path.getsize(temporary)
        path = target_folder / f"{sha256}.tar.gz"
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    files = [entry for entry in entries if not entry.is_folder]
    return CodeArchive(path, sha256, size, len(files), sum(entry.size for entry in files))


def code_entries(folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES,
                 keep_links: bool = True) -> list[CodeEntry]:
    """What would be shipped, sorted by name. Raises CodeRefused and CodeTooLarge.

    Without ``keep_links`` links that stay inside the folder are followed as well, for who takes no links.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise CodeRefused(f"The code folder {folder} {what}; correct trialCodeDirectory.")
    root = folder.resolve()
    entries: list[CodeEntry] = []
    files = total = 0
    try:
        for entry in _walk(root, root, (), None, (root,), keep_links):
            entries.append(entry)
            if not entry.is_folder:
                files += 1
                total += entry.size
            if files > _COUNT_NO_FURTHER:
                break
    except OSError as error:
        raise CodeRefused(f"{error.filename or folder} cannot be read ({error.strerror}); "
                          f"mend its rights or name it in {folder / IGNORE_FILE}.") from error
    if files > max_files or total > max_bytes:
        raise CodeTooLarge(_too_large(folder, entries, files, total, max_files, max_bytes))
    return sorted(entries, key=lambda entry: entry.name.split("/"))


def _walk(root: Path, folder: Path, place: tuple[str, ...], above: IgnoreRules | None,
          inside: tuple[Path, ...], keep_links: bool) -> Iterator[CodeEntry]:
    """Everything below ``folder``, which is shipped as ``place``.

    ``inside`` holds the real folders this one lies in: finding one of them again is a circle.
    """
    rules = IgnoreRules(folder, above)
    copied = not keep_links or not folder.is_relative_to(root)
    for child in sorted(os.scandir(folder), key=lambda item: item.name):
        path = (*place, child.name)
        source = Path(child.path)
        inner = _inner_link(root, source) if child.is_symlink() and not copied else None
        if rules.ignores(path, inner is None and child.is_dir()):
            continue
        if inner is not None:
            yield CodeEntry("/".join(path), source, 0o777, link=inner)
            continue
        if child.is_symlink():
            if not source.exists():
                raise CodeRefused(f"The link {source} points to {os.readlink(source)}, which does not exist; remove "
                                  f"the link or name it in {root / IGNORE_FILE}.")
            source = source.resolve()
        status = source.stat()
        mode = 0o755 if status.st_mode & 0o111 else 0o644
        if stat.S_ISDIR(status.st_mode):
            if source in inside:
                raise CodeRefused(f"The link {child.path} leads back to {source}, a folder it lies in; remove the link "
                                  f"or name it in {root / IGNORE_FILE}.")
            yield CodeEntry("/".join(path), source, 0o755, is_folder=True)
            yield from _walk(root, source, path, rules, (*inside, source), keep_links)
        elif stat.S_ISREG(status.st_mode):
            yield CodeEntry("/".join(path), source, mode, size=status.st_size)
        else:
            logger.warning("%s is neither file, folder nor link and is not shipped with the code", child.path)


def _inner_link(root: Path, link: Path) -> str | None:
    """The relative target of a link that stays inside the folder, None where it leaves it."""
    target = os.readlink(link)
    goal = os.path.normpath(link.parent / target)
    if not (os.path.lexists(goal) and Path(goal).is_relative_to(root)):
        return None
    if not Path(os.path.realpath(link)).is_relative_to(root):  # inside by name, but by way of another link it leaves
        return None
    return os.path.relpath(goal, link.parent)


def write_archive(entries: list[CodeEntry], stream: io.BufferedIOBase | io.RawIOBase | io.BufferedWriter) -> None:
    """Write the entries as a tar.gz. Raises CodeRefused where a file cannot be read, OSError where writing fails."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.mode = entry.mode
            if entry.is_folder:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif entry.link is not None:
                info.type = tarfile.SYMTYPE
                info.linkname = entry.link
                archive.addfile(info)
            else:
                _add_file(archive, info, entry)


def _add_file(archive: tarfile.TarFile, info: tarfile.TarInfo, entry: CodeEntry) -> None:
    try:
        with open(entry.source, "rb") as content:
            info.size = os.fstat(content.fileno()).st_size
            archive.addfile(info, content)
    except OSError as error:
        reason = error.strerror or "it became shorter while it was read"
        raise CodeRefused(f"{entry.source} cannot be packed: {reason}; mend that or name it in "
                          f"{IGNORE_FILE}.") from error


def _too_large(folder: Path, entries: list[CodeEntry], files: int, total: int, max_files: int, max_bytes: int) -> str:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in entries:
        if not entry.is_folder:
            top = entry.name.partition("/")[0] + ("/" if "/" in entry.name else "")
            counts[top] += 1
            sizes[top] += entry.size
    by = counts if files > max_files else sizes
    largest = [name for name, _ in by.most_common(3)]
    listed = ", ".join(f"{name} ({counts[name]} files, {_size(sizes[name])})" for name in largest)
    at_least = "more than " if files > _COUNT_NO_FURTHER else ""
    lines = " ".join("/" + name for name in largest)
    return (f"The code folder {folder} has {at_least}{files} files of {_size(total)} together; at most {max_files} "
            f"files and {_size(max_bytes)} are shipped. The largest parts: {listed}. Put what the trials do not need "
            f"into {folder / IGNORE_FILE}, for instance the lines: {lines} - or keep data outside the code folder, "
            "where the trial machines can read it.")


def _size(count: int) -> str:
    return f"{count / 1024 / 1024:.1f} MB" if count >= 1024 * 1024 / 10 else f"{count / 1024:.1f} kB"
