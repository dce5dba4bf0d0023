"""Which files of a folder ``.nniignore`` leaves out: git's rules, exactly.

A ``.nniignore`` may lie in any folder; its patterns are relative to the folder it lies in (NNI
matches those of nested files against the root, which surprises everybody). The last matching line
wins, the nearest file first; ``!pattern`` takes a file back in, but not out of an ignored folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

IGNORE_FILE = ".nniignore"


class IgnoreRules:
    """The rules that hold inside one folder: its own and those of the folders above it."""

    def __init__(self, folder: Path, above: IgnoreRules | None = None) -> None:
        """Reads the folder's ``.nniignore`` if it has one. Raises OSError if it cannot be read."""
        self._above = above
        self._patterns: list[tuple[re.Pattern[str], bool]] = []
        ignore_file = folder / IGNORE_FILE
        if ignore_file.is_file():
            lines = ignore_file.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
            self._patterns = list(reversed([pattern for line in lines if (pattern := _pattern(line))]))

    def ignores(self, path: tuple[str, ...], is_folder: bool) -> bool:
        """Whether to leave out ``path`` (its parts, from this folder's place). Parents must have been asked before."""
        rules: IgnoreRules | None = self
        for depth in range(len(path) - 1, -1, -1):  # from the folder the path lies in up to the root
            if rules is None:
                break
            verdict = rules._verdict("/".join(path[depth:]), is_folder)
            if verdict is not None:
                return verdict
            rules = rules._above
        return False

    def _verdict(self, relative: str, is_folder: bool) -> bool | None:
        for regex, ignored in self._patterns:
            if _matches(regex, relative, is_folder):
                return ignored
        return None


def _pattern(line: str) -> tuple[re.Pattern[str], bool] | None:
    try:
        pattern = GitIgnoreSpecPattern(line)
    except ValueError:  # git skips a line it cannot read, too
        return None
    if pattern.regex is None or pattern.include is None:  # empty line or comment
        return None
    return re.compile(pattern.regex.pattern, re.DOTALL), pattern.include


def _matches(regex: re.Pattern[str], relative: str, is_folder: bool) -> bool:
    """Whether the pattern names this very path.

    pathspec's expressions also match everything below a folder they name. Folders are pruned here
    as git does it, so such a match must not count: ``!a/`` takes the folder back in, not its content.
    """
    if not regex.groupindex:  # no mark for "the slash after a folder": matches as it stands
        return regex.search(relative) is not None
    text = relative + "/" if is_folder else relative
    return any(match.end() == len(text) for match in regex.finditer(text))
