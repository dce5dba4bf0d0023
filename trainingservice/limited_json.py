"""The one reader of JSON that people type into a field: of a bearable depth, with texts that every database takes.

Which texts those are: all but those with U+0000 or with half of a surrogate pair.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Lists and objects within each other. More is no settings and would exhaust the interpreter's stack.
DEEPEST_NESTING = 100
#: How the messages of Python's reader begin, and what to say instead.
_WORDS = {
    "Expecting value": "a value is missing, or is none of JSON: texts are in double quotes",
    "Expecting property name": "the name of a field in double quotes is missing",
    "Expecting ':'": "a colon is missing after the name",
    "Expecting ','": "a comma or the closing bracket is missing",
    "Extra data": "the JSON is complete before this; remove what follows, or a closing bracket before it",
    "Invalid control character": "a line break or a tab in a text; write \\n or \\t",
    "Invalid \\uXXXX": "\\u must be followed by four hexadecimal digits",
    "Invalid \\escape": "a backslash in a text; write two",
    "Unterminated string": "a quote opens here and is not closed",
    "Unexpected UTF-8 BOM": "the text begins with a byte order mark; save it as UTF-8 without one",
}
#: Python's and YAML's words for values of JSON.
_FOREIGN = re.compile(r"(True|False|None|yes|no|on|off|nil|undefined)\b")
_IN_JSON = {"True": "true", "yes": "true", "on": "true", "False": "false", "no": "false", "off": "false"}
#: The characters that a column for text neither takes nor can be asked for.
IN_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
#: What is said of a text that has one.
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
        document = json.loads(text, object_pairs_hook=_object)
        too_deep = _is_deeper(document, DEEPEST_NESTING)
    except RecursionError:
        too_deep = True
    except JsonRefused:
        raise
    except ValueError as error:
        raise JsonRefused(f"must be JSON; {json_fault(error)}") from None
    if too_deep:
        raise JsonRefused(f"must be JSON that is not nested more than {DEEPEST_NESTING} levels deep")
    for path in places_of_bad_texts(document):
        raise JsonRefused(WHY, path)
    for path in _places_of_no_numbers(document):
        raise JsonRefused("must be a number that is finite and below 1e308; JSON has no others", path)
    return document


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(members)
    if len(document) < len(members):  # Python would take the last of them
        raise JsonRefused("must be JSON in which each name of an object is there once")
    return document


def json_fault(error: ValueError) -> str:
    """What is wrong in a text that ``json.loads`` refuses, and where: ``line 1, column 8: a comma is missing``.

    It shows nothing of the text.
    """
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if not isinstance(error, json.JSONDecodeError):  # Python limits the digits, REST takes no NaN
        return "a number has too many digits" if "digits" in str(error) else "NaN and Infinity are no numbers of JSON"
    return f"line {error.lineno}, column {error.colno}: {json_fault_words(error)}"


def json_fault_words(error: json.JSONDecodeError) -> str:
    """The same without the place."""
    rest, before = error.doc[error.pos:].lstrip(), error.doc[:error.pos].rstrip()
    words = next((said for start, said in _WORDS.items() if error.msg.startswith(start)),
                 "a comma, colon, quote or bracket is missing or too many")
    if not error.msg.startswith("Expecting"):
        return words
    if not rest:
        return "the text ends before the JSON is complete" if before else "the text is empty"
    if rest[0] in "]}" and before.endswith(","):
        return "a comma stands before the closing bracket; remove it"
    if rest[0] == "'":
        return "texts and names are in double quotes, not in single ones"
    if error.msg.startswith("Expecting value") and (foreign := _FOREIGN.match(rest)) is not None:
        return f"write {_IN_JSON.get(foreign[1], 'null')} instead of {foreign[1]}"
    return words


def _places_of_no_numbers(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(document, float) and not math.isfinite(document):
        yield place
    elif isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _places_of_no_numbers(value, (*place, key))


def _is_deeper(document: Any, levels: int) -> bool:
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return any(levels == 0 or _is_deeper(item, levels - 1) for item in inner if isinstance(item, dict | list))


def text_problem(text: str) -> str:
    """Why this text cannot be stored, "" where it can."""
    return WHY if IN_NO_TEXT.search(text) else ""


def storable(text: str) -> str:
    """The text with U+FFFD (REPLACEMENT CHARACTER) for each such character."""
    return IN_NO_TEXT.sub("\ufffd", text)


def storable_document(document: Any) -> Any:
    """A document (JSON) with each text and key ``storable``. Not for endless nesting: raises RecursionError."""
    if isinstance(document, str):
        return storable(document)
    if isinstance(document, Mapping):
        return {storable(str(key)): storable_document(value) for key, value in document.items()}
    return [storable_document(item) for item in document] if isinstance(document, list | tuple) else document


def places_of_bad_texts(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in a document (JSON) such texts are, keys too."""
    if isinstance(document, str):
        if IN_NO_TEXT.search(document):
            yield place
    elif isinstance(document, Mapping):
        for key, value in document.items():
            if IN_NO_TEXT.search(str(key)):
                yield place
            else:
                yield from places_of_bad_texts(value, (*place, key))
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from places_of_bad_texts(value, (*place, index))
