"""Texts that no database takes: with U+0000, or with half of a surrogate pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_IN_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
WHY = "contains a character that no text has (U+0000 or half of a surrogate pair)"


def places_of_bad_texts(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in a document (JSON) such texts are, keys too."""
    if isinstance(document, str):
        if _IN_NO_TEXT.search(document):
            yield place
    elif isinstance(document, Mapping):
        for key, value in document.items():
            if _IN_NO_TEXT.search(str(key)):
                yield place
            else:
                yield from places_of_bad_texts(value, (*place, key))
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from places_of_bad_texts(value, (*place, index))
