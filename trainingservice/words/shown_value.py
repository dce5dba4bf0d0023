"""Values of people's in sentences: as JSON writes them, short and on one line, never as Python does."""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import PurePath
from typing import Any


def shown(value: Any, longest: int = 60) -> str:
    """A value as the caller wrote it, at most so many characters; of groups only their kind. What cannot be printed is
    escaped.
    """
    if isinstance(value, dict):
        return "a group of fields"
    if isinstance(value, list | tuple | Set):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=_as_text)
    if len(text) > longest:
        text = text[:longest - 4] + '..."'
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    text = str(value)
    return text if isinstance(value, PurePath) or not text.startswith("<") else \
        f"a value of the type {type(value).__name__}"
