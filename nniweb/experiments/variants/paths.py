"""Which files of the code a variant may change: by the form of their paths, and by the patterns of the experiment."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from trainingservice.code.git_pattern import GitPattern, read_pattern

#: Bytes of a path, and folders within each other.
LONGEST_PATH, DEEPEST = 255, 20


def path_problem(path: str) -> str:
    """What is wrong with the form of a path, as the rest of a sentence that begins with it; "" for nothing."""
    if not path:
        return "is no path of a file. Give the path of a file in the code folder, such as train.py."
    if any(unicodedata.category(character).startswith("C") for character in path):
        return "has a character that cannot be printed."
    if "\\" in path:
        return "has a backslash. Write slashes between folders."
    if path.startswith("/"):
        return "is absolute. Write paths from the code folder."
    parts = path.split("/")
    if ".." in parts or "." in parts:
        return 'has the part ".." or ".". Write plain paths from the code folder.'
    if "" in parts:
        return "is no path of a file: a name between its slashes is empty."
    if any(part.casefold().rstrip(". ") == ".git" for part in parts):
        return "lies in a .git folder, which cannot be changed."
    if len(path.encode()) > LONGEST_PATH:
        return f"is longer than {LONGEST_PATH} bytes."
    if len(parts) > DEEPEST:
        return f"lies more than {DEEPEST} folders deep."
    return ""


class PermittedPaths:
    """Patterns in the syntax of .nniignore, here for what may be changed. The last one that matches the file, or a
    folder above it, counts.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns: list[GitPattern] = []
        for line in reversed(patterns):
            if (pattern := read_pattern(_as_bytes(line))) is not None:
                self._patterns.append(pattern)
        self.shown = ", ".join(patterns)

    def permit(self, path: str) -> bool:
        parts = _as_bytes(path).split("/")
        for pattern in self._patterns:
            if any(pattern.matches("/".join(parts[:depth]), parts[depth - 1], depth < len(parts))
                   for depth in range(1, len(parts) + 1)):
                return pattern.ignores
        return False


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")
