"""The code of an experiment as one tar.gz: the folder's content less what ``.nniignore`` leaves out.

The same content gives the same bytes: sorted names, no times, no owners, rights 755 or 644. Kept are
bytes, execute bits, empty folders and the ``.nniignore`` files themselves. Links:

* a link to something inside the folder stays a link (an absolute one becomes relative), also where
  what it points to is left out;
* a link that leaves the folder is refused, with its name. It is never followed: whoever packs may be allowed to read
  more than whoever made the link, such as the server's keys. Kept as a link it would lead to something else, or
  nothing, on the other machine;
* a link to nothing is refused, with its name: a trial would miss it much later.

No step from the root of the file system to a file follows a link, so a folder that is replaced by a link while it is
read leads nowhere.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainingservice.code.ignore_rules import IGNORE_FILE, IgnoreFileTooLarge, IgnoreRules
from trainingservice.errors import PermanentError
from trainingservice.files.unlinked_paths import LinkOnTheWay, open_file, open_folder
from trainingservice.words.byte_size import byte_size
from trialkeeper.durable_files import put_in_place

if TYPE_CHECKING:  # packing needs nothing of a trial: programs that only pack need no pydantic
    from trainingservice.trial_job import TrialCode

logger = logging.getLogger(__name__)

MAX_FILES = 2000
MAX_BYTES = 300 * 1024 * 1024
#: Counting stops here, so that a whole home folder named by mistake is refused soon.
_COUNT_NO_FURTHER = 200_000
#: Folders within each other.
DEEPEST = 100


class CodeRefused(PermanentError):
    """The code folder cannot be packed: missing, unreadable, with a link to nothing or to something outside. The text
    says which file.
    """

    #: Of ``code_tree``: the part that it is about; "" where there are none, or for all of them.
    part = ""


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
    """One thing that is shipped: a file, a folder, or (with ``link``) a symbolic link.

    ``name`` has slashes; ``source`` is absolute and passes through no link.
    """

    name: str
    source: Path
    mode: int
    size: int = 0
    is_folder: bool = False
    link: str | None = None


def require_archive(code: TrialCode | None) -> None:
    """Raises PermanentError where the archive that shall be shipped is gone."""
    if code is not None and code.archive is not None and not code.archive.is_file():
        raise PermanentError(f"The code archive {code.archive} no longer exists. Launch the experiment again.")


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
    """Pack ``folder`` as ``<sha256>.tar.gz`` in ``target_folder`` (made if need be). ``folder``: as ``code_entries``.

    The file appears whole or not at all; one that is there already is used. Raises CodeRefused,
    CodeTooLarge; OSError where the target cannot be written.
    """
    return pack_entries(code_entries(folder, max_files=max_files, max_bytes=max_bytes), target_folder)


def pack_tree(folder: Path, parts: Mapping[str, Path], target_folder: Path) -> CodeArchive:
    """``pack_code`` of what ``code_tree`` says."""
    return pack_entries(code_tree(folder, parts), target_folder)


def pack_entries(entries: list[CodeEntry], target_folder: Path) -> CodeArchive:
    """Pack what ``code_entries`` gave, as ``pack_code``; files of other content may stand in the place of some."""
    target_folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target_folder, prefix=".code-")
    try:
        with os.fdopen(handle, "wb") as stream:
            write_archive(entries, stream)
        with open(temporary, "rb") as packed:
            sha256 = hashlib.file_digest(packed, "sha256").hexdigest()
        size = os.path.getsize(temporary)
        path = target_folder / f"{sha256}.tar.gz"
        put_in_place(temporary, str(path))
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    files = [entry for entry in entries if not entry.is_folder]
    return CodeArchive(path, sha256, size, len(files), sum(entry.size for entry in files))


def code_entries(folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES,
                 keep_links: bool = True) -> list[CodeEntry]:
    """What would be shipped, sorted by name. Raises CodeRefused and CodeTooLarge.

    ``folder`` is absolute and resolved (``Path.resolve``): where a link is met on the way to it, it was put there since
    the path was checked, and the folder is refused. Without ``keep_links`` links that stay inside the folder are
    followed, for who takes no links.
    """
    entries: list[CodeEntry] = []
    files = total = 0
    try:
        os.close(open_folder(folder))
        for entry in _walk(folder, folder, (), None, (folder,), keep_links):
            entries.append(entry)
            if not entry.is_folder:
                files += 1
                total += entry.size
            if files > _COUNT_NO_FURTHER:
                break
    except IgnoreFileTooLarge as error:
        raise CodeRefused(str(error)) from None
    except LinkOnTheWay as error:
        if error.filename == str(folder) and not folder.is_symlink() and folder.exists() and not folder.is_dir():
            raise CodeRefused(f"The code folder {folder} is not a folder; correct trialCodeDirectory.") from None
        raise CodeRefused(f"{error.filename} cannot be packed: {error.strerror}. Links out of the code folder are not "
                          "followed. Give the folder's own path, and do not change the folder while it is "
                          "packed.") from error
    except OSError as error:
        if not folder.exists():
            raise CodeRefused(f"The code folder {folder} does not exist; correct trialCodeDirectory.") from None
        raise CodeRefused(f"{error.filename or folder} cannot be read ({error.strerror}). Correct its permissions or "
                          f"name it in {folder / IGNORE_FILE}.") from error
    if files > max_files or total > max_bytes:
        raise CodeTooLarge(_too_large(folder, entries, files, total, max_files, max_bytes))
    return sorted(entries, key=lambda entry: entry.name.split("/"))


def code_tree(folder: Path, parts: Mapping[str, Path], *, keep_links: bool = True) -> list[CodeEntry]:
    """``code_entries`` of the folder; with ``parts`` (name -> folder) those of each of them, below its name at the top.

    The limits are for all parts together. Links do not lead from one part to another. ``CodeRefused.part`` tells where
    the fault is.
    """
    if not parts:
        return code_entries(folder, keep_links=keep_links)
    entries: list[CodeEntry] = []
    for name, source in parts.items():
        entries.append(CodeEntry(name, source, 0o755, is_folder=True))
        try:
            entries += [replace(entry, name=f"{name}/{entry.name}")
                        for entry in code_entries(source, keep_links=keep_links)]
        except CodeRefused as error:
            error.part = name
            raise
    files = [entry for entry in entries if not entry.is_folder]
    total = sum(entry.size for entry in files)
    if len(files) > MAX_FILES or total > MAX_BYTES:
        listed = ", ".join(map(str, parts.values()))
        raise CodeTooLarge(f"The code folders {listed} have {len(files)} files of {byte_size(total)} together; at most "
                           f"{MAX_FILES} files and {byte_size(MAX_BYTES)} are shipped. Put what the trials do not need "
                           f"into the {IGNORE_FILE} of each, or keep data outside the code folders, where the trial "
                           "machines can read it.")
    return sorted(entries, key=lambda entry: entry.name.split("/"))


def _walk(root: Path, folder: Path, place: tuple[str, ...], above: IgnoreRules | None,
          inside: tuple[Path, ...], keep_links: bool) -> Iterator[CodeEntry]:
    """Everything below ``folder``, which is shipped as ``place``.

    ``inside`` holds the real folders this one lies in: finding one of them again is a circle.
    """
    if len(place) > DEEPEST:
        raise CodeRefused(f"{folder} is more than {DEEPEST} levels deep in the code folder {root}; name it in "
                          f"{root / IGNORE_FILE}.")
    if (ignore_file := folder / IGNORE_FILE).is_symlink():
        _inner_link(root, ignore_file)
    rules = IgnoreRules(folder, above)
    for name, status in _content(folder):
        path = (*place, name)
        source = folder / name
        if not stat.S_ISLNK(status.st_mode):
            if rules.ignores(path, stat.S_ISDIR(status.st_mode)):
                continue
        else:
            if rules.ignores(path, source.is_dir() and not (keep_links and _leads_inside(root, source))):
                continue
            link = _inner_link(root, source)
            if keep_links:
                yield CodeEntry("/".join(path), source, 0o777, link=link)
                continue
            source = Path(os.path.realpath(source))
            if not source.is_relative_to(root):  # it was another link a moment ago
                raise CodeRefused(f"The link {folder / name} points out of the code folder; remove it.")
            status = source.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if source in inside:
                raise CodeRefused(f"The link {folder / name} points back to {source}, a folder that contains it; "
                                  f"remove the link or name it in {root / IGNORE_FILE}.")
            yield CodeEntry("/".join(path), source, 0o755, is_folder=True)
            yield from _walk(root, source, path, rules, (*inside, source), keep_links)
        elif stat.S_ISREG(status.st_mode):
            yield CodeEntry("/".join(path), source, 0o755 if status.st_mode & 0o111 else 0o644, size=status.st_size)
        else:
            logger.warning("%s is neither file, folder nor link and is not shipped with the code", source)


def _content(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Names in a folder, sorted, each with what it is (of a link: the link)."""
    descriptor = open_folder(folder)
    try:
        with os.scandir(descriptor) as children:
            return sorted((child.name, child.stat(follow_symlinks=False)) for child in children)
    finally:
        os.close(descriptor)


def _leads_inside(root: Path, link: Path) -> bool:
    """Whether a link leads to something inside the folder, by name and by way of other links."""
    goal = os.path.normpath(link.parent / os.readlink(link))
    return os.path.lexists(goal) and Path(goal).is_relative_to(root) \
        and Path(os.path.realpath(link)).is_relative_to(root)


def _inner_link(root: Path, link: Path) -> str:
    """The relative target of a link that stays inside the folder. Raises CodeRefused where it leaves it."""
    target = os.readlink(link)
    if _leads_inside(root, link):
        return os.path.relpath(os.path.normpath(link.parent / target), link.parent)
    if not link.exists():
        raise CodeRefused(f"The link {link} points to {target}, which does not exist; remove the link or name it in "
                          f"{root / IGNORE_FILE}.")
    raise CodeRefused(f"The link {link} points out of the code folder, to {os.path.realpath(link)}. Files outside of "
                      "the folder are not packed. Replace the link with the files themselves; or name the link in "
                      f"{root / IGNORE_FILE}, and let trials read the files by a path that exists on their machines.")


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
        with open(open_file(entry.source), "rb") as content:
            info.size = os.fstat(content.fileno()).st_size
            archive.addfile(info, content)
    except OSError as error:
        reason = error.strerror or "it became shorter while it was read"
        raise CodeRefused(f"{entry.source} cannot be packed: {reason}. Correct that or name it in "
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
    listed = ", ".join(f"{name} ({counts[name]} files, {byte_size(sizes[name])})" for name in largest)
    at_least = "more than " if files > _COUNT_NO_FURTHER else ""
    lines = " ".join("/" + name for name in largest)
    return (f"The code folder {folder} has {at_least}{files} files of {byte_size(total)} together; at most {max_files} "
            f"files and {byte_size(max_bytes)} are shipped. The largest parts: {listed}. Put what the trials do not "
            f"need into {folder / IGNORE_FILE}, for instance the lines: {lines} - or keep data outside the code "
            "folder, where the trial machines can read it.")
