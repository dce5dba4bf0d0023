"""Collects what is wrong and what is worth saying while a document is read, at the caller's places and spellings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from nniweb.experiments.config.errors import ConfigError, ConfigInvalid
from nniweb.experiments.config.yaml_positions import Path, Place, path_text

#: Things that are told of one document. What is wrong with more of them is not looked for: each takes its time.
MOST_ERRORS = 1000


class Findings:
    """Errors and notes about one document.

    A *raw* path is spelt as in the document; a canonical path is one of the v2 form. ``spelt``
    records how the caller wrote a canonical path; ``foreign_spelling`` answers for those that the
    caller did not write (a required field of a v1 file has another name there). Whatever adds the
    last of MOST_ERRORS errors raises ConfigInvalid.
    """

    def __init__(self, places: dict[Path, Place], foreign_spelling: Callable[[Path], Path] | None = None) -> None:
        self._places = places
        self._foreign_spelling = foreign_spelling
        self._spelt: dict[Path, Path] = {}
        #: In the order in which they were found.
        self._errors: dict[ConfigError, None] = {}
        self.notes: list[str] = []

    def spelt(self, path: Path, raw: Path) -> None:
        self._spelt[path] = raw

    def raw(self, path: Path) -> Path:
        """The caller's path for a canonical one."""
        if self._foreign_spelling is not None:
            return self._foreign_spelling(path)
        for length in range(len(path), 0, -1):
            if path[:length] in self._spelt:
                return (*self._spelt[path[:length]], *path[length:])
        return path

    def spelling(self, path: Path | str) -> str:
        """The same as text, for sentences: ``trialCommand``, or ``trial.command`` in a v1 file."""
        return path_text(self.raw((path,) if isinstance(path, str) else path))

    def add(self, path: Path | str, message: str) -> None:
        """Something is wrong with the value at a canonical path."""
        self.add_raw(self.raw((path,) if isinstance(path, str) else path), message)

    def add_raw(self, raw: Path, message: str, *, at_key: bool = False) -> None:
        """Something is wrong with the value (or with the key itself) at a path as the caller spelt it."""
        self._add(path_text(raw), message, *self._position(raw, at_key))

    def error_at(self, path: Path, message: str) -> ConfigError:
        """What was found wrong later, with the value at a canonical path. It is not added."""
        raw = self.raw(path)
        return ConfigError(path_text(raw), message, *self._position(raw, at_key=False))

    def _position(self, raw: Path, at_key: bool) -> tuple[int | None, int | None]:
        """Line and column of the value, or of the key itself."""
        for length in range(len(raw), 0, -1):  # what is missing has the place of what it is missing from
            place = self._places.get(raw[:length])
            if place is not None:
                at_key = at_key or length < len(raw)
                return (place.key_line, place.key_column) if at_key else (place.line, place.column)
        return None, None

    def _add(self, field: str, message: str, line: int | None, column: int | None) -> None:
        self._errors[ConfigError(field, message, line, column)] = None
        if len(self._errors) >= MOST_ERRORS:
            self.raise_if_any()

    def add_text(self, field: str, message: str) -> None:
        """Something is wrong at a field given as text, as the caller spelt it (names in it may hold dots)."""
        known = field
        while known and known not in self._places_of_texts:
            known = known[:max(known.rfind("."), known.rfind("["), 0)]
        place = self._places_of_texts[known] if known else None
        line, column = (place.line, place.column) if place is not None else (None, None)
        self._add(field, message, line, column)

    @cached_property
    def _places_of_texts(self) -> dict[str, Place]:
        return {path_text(raw): place for raw, place in self._places.items()}

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def place(self, path: Path) -> Place | None:
        """Where the value of a canonical path stands in the text."""
        return self._places.get(self.raw(path))

    def has_error(self, path: Path | str) -> bool:
        """Whether an error was found at this canonical path or below it."""
        text = self.spelling(path)
        return any(error.field == text or error.field.startswith((text + ".", text + "[")) for error in self._errors)

    def __bool__(self) -> bool:
        return bool(self._errors)

    def raise_if_any(self) -> None:
        """Raises ConfigInvalid with all errors, in the order of the file."""
        if self._errors:
            raise ConfigInvalid(sorted(self._errors, key=lambda error: (error.line or 0, error.column or 0)))
