"""The one reader of JSON that people type into a field: of a bearable depth, with texts that every database takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Lists and objects within each other. More is no settings and would exhaust the interpreter's stack.
DEEPEST_NESTING = 100
_IN_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
#: What is said of a text with U+0000, or with half of a surrogate pair: no database takes it.
WHY = "contains a character that no text has (U+0000 or half of a surrogate pair)"


class JsonRefused(ValueError):
    """The text is no JSON that is read here. ``path`` is the place of the fault in the document, () for the whole."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        self.message, self.path = message, path
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        super().__init__(f"{place}: {message}" if place else message)


def read_json(text: str) -> Any:
    """The document. Raises JsonRefused, whose sentence shows nothing of the text."""
    try:
        document = json.loads(text)
        too_deep = _is_deeper(document, DEEPEST_NESTING)
    except RecursionError:
        too_deep = True
    except ValueError as error:
        raise JsonRefused(f"must be JSON ({error})") from None
    if too_deep:
        raise JsonRefused(f"must be JSON that is not nested more than {DEEPEST_NESTING} levels deep")
    for path in places_of_bad_texts(document):
        raise JsonRefused(WHY, path)
    return document


def _is_deeper(document: Any, levels: int) -> bool:
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return any(levels == 0 or _is_deeper(item, levels - 1) for item in inner if isinstance(item, dict | list))


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
