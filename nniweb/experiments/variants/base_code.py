"""The experiment's code as it is in its archive: which paths there are, and the text of those that a variant names."""

from __future__ import annotations

import tarfile
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from zlib import error as ZlibError

from nniweb.experiments.variants.refused import of_path

#: A longer file of the code cannot be changed: it is shown whole where somebody looks at the change.
LONGEST_FILE = 512 * 1024
FILE, FOLDER, LINK = "file", "folder", "link"
#: Files that are read of one archive at a time, for all variants of a request.
MOST_BYTES_READ = 64 * 1024 * 1024


class CodeUnreadable(Exception):
    """The archive is missing or damaged. The text is a sentence."""


@dataclass(frozen=True)
class BaseFile:
    """``content`` None: it is longer than LONGEST_FILE."""

    content: bytes | None
    executable: bool


class BaseCode:
    """``sha256``: of the archive."""

    def __init__(self, sha256: str, kinds: dict[str, str], files: dict[str, BaseFile]) -> None:
        self.sha256 = sha256
        self._kinds = kinds
        self._files = files
        self._folded = {folded(path): path for path in kinds}

    @classmethod
    def read(cls, archive: Path, sha256: str, wanted: Collection[str]) -> BaseCode:
        """Reads the archive once, and of its files those that are ``wanted``. Raises CodeUnreadable."""
        kinds: dict[str, str] = {}
        files: dict[str, BaseFile] = {}
        left = MOST_BYTES_READ
        try:
            with tarfile.open(archive, "r|gz") as tar:
                for member in tar:
                    path = member.name.strip("/").removeprefix("./")
                    kinds[path] = FOLDER if member.isdir() else FILE if member.isreg() else LINK
                    for depth in range(path.count("/")):
                        kinds.setdefault("/".join(path.split("/")[:depth + 1]), FOLDER)
                    if path in wanted and member.isreg():
                        is_short = member.size <= min(LONGEST_FILE, left)
                        stream = tar.extractfile(member) if is_short else None
                        left -= member.size if is_short else 0
                        files[path] = BaseFile(None if stream is None else stream.read(), bool(member.mode & 0o100))
        except (OSError, tarfile.TarError, EOFError, ZlibError) as error:
            raise CodeUnreadable(f"The copy of the experiment's code cannot be read ({error}). Launch the experiment "
                                 "again.") from error
        return cls(sha256, kinds, files)

    def kind(self, path: str) -> str:
        """FILE, FOLDER, LINK, or "" where there is nothing."""
        return self._kinds.get(path, "")

    def alike(self, path: str) -> str:
        """Another path of the code that is the same for file systems without case, "" for none."""
        there = self._folded.get(folded(path), path)
        return "" if there == path else there

    def text(self, path: str, field: str) -> tuple[str, bool]:
        """The text of a plain file that was wanted, and whether it is executable. Raises VariantRefused."""
        check_way(self, path, field)
        kind = self.kind(path)
        if kind == LINK:
            raise of_path(field, path, "is a link in the code. Only plain files can be changed.")
        if kind == FOLDER:
            raise of_path(field, path, "is a folder in the code. Only plain files can be changed.")
        if kind != FILE:
            raise of_path(field, path, "does not exist in the code.")
        file = self._files[path]
        if file.content is None:
            raise of_path(field, path, f"is longer than {LONGEST_FILE // 1024} KB in the code. Only shorter files can "
                                       "be changed.")
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise of_path(field, path, "is no text in the code. Only text files in UTF-8 can be changed.")
        return text, file.executable


def check_way(base: BaseCode, path: str, field: str) -> None:
    """Whether the folders of a path are folders in the code, or are not there. Raises VariantRefused."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if base.kind(above) == LINK:
            raise of_path(field, path, f"leads through {above}, which is a link in the code.")
        if base.kind(above) == FILE:
            raise of_path(field, path, f"leads through {above}, which is a file in the code.")


def folded(path: str) -> str:
    """The same for paths that some file systems take for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
