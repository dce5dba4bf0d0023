"""Which files of a folder ``.nniignore`` leaves out: git's rules, exactly.

A ``.nniignore`` may lie in any folder; its patterns are relative to the folder it lies in (NNI
matches those of nested files against the root, which surprises everybody). The last matching line
wins, the nearest file first; ``!pattern`` takes a file back in, but not out of an ignored folder.

Names and patterns are bytes to git, so that ``?`` is one byte. Here each byte is a character of its own.
"""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from trainingservice.code.git_pattern import GitPattern, read_pattern

IGNORE_FILE = ".nniignore"
#: What holds in one folder, with the files of the folders above it: bytes, and rules. Each name there is compared with
#: each rule.
MAX_BYTES, MAX_RULES = 64 * 1024, 1000


class IgnoreFileTooLarge(Exception):
    """The text says which file, and what to do."""


class IgnoreRules:
    """The rules that hold inside one folder: its own and those of the folders above it."""

    def __init__(self, folder: Path, above: IgnoreRules | None = None) -> None:
        """Reads the folder's ``.nniignore`` if it has one. Raises OSError if it cannot be read, IgnoreFileTooLarge."""
        self._above = above
        self._size: int = above._size if above is not None else 0
        self._count: int = above._count if above is not None else 0
        self._patterns: list[GitPattern] = []
        ignore_file = folder / IGNORE_FILE
        if ignore_file.is_file():
            self._read(ignore_file)

    def _read(self, ignore_file: Path) -> None:
        with ignore_file.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        lines = content.removeprefix(codecs.BOM_UTF8).decode("latin-1").split("\n")
        self._size += len(content)
        if self._size <= MAX_BYTES:
            self._patterns = [pattern for line in reversed(lines) if (pattern := read_pattern(line)) is not None]
            self._count += len(self._patterns)
        if self._size > MAX_BYTES or self._count > MAX_RULES:
            raise IgnoreFileTooLarge(
                f"{ignore_file} is too large: at most {MAX_RULES} rules in {MAX_BYTES // 1024} KB hold in one folder, "
                "those of the folders above it included. Name folders in it instead of the files in them.")

    def ignores(self, path: tuple[str, ...], is_folder: bool) -> bool:
        """Whether to leave out ``path`` (its parts, from this folder's place). Parents must have been asked before."""
        rules: IgnoreRules | None = self
        for depth in range(len(path) - 1, -1, -1):  # from the folder the path lies in up to the root
            if rules is None:
                break
            if rules._patterns:
                verdict = rules._verdict(_as_bytes(path[depth:]), is_folder)
                if verdict is not None:
                    return verdict
            rules = rules._above
        return False

    def _verdict(self, relative: str, is_folder: bool) -> bool | None:
        name = relative.rpartition("/")[2]
        for pattern in self._patterns:
            if pattern.matches(relative, name, is_folder):
                return pattern.ignores
        return None


def _as_bytes(path: tuple[str, ...]) -> str:
    return os.fsencode("/".join(path)).decode("latin-1")

