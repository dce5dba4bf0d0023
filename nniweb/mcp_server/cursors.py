"""Cursors: where a tool goes on. To the caller they are opaque; they hold no right, and REST checks what they lead to.

A cursor of another tool or question is refused, so that nothing is left out without a word.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nniweb.client.errors import FieldError, Refused

#: Characters of a cursor.
LONGEST = 500
_LARGEST = 2**63 - 1


def question(**what: Any) -> str:
    """A short name for what is asked, so that a cursor is not used for another question."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:12]


def written(of: str, place: Mapping[str, int | str]) -> str:
    """The cursor. ``of``: the question that it belongs to."""
    text = json.dumps({"of": of, **place}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(cursor: str, of: str, names: Mapping[str, type]) -> dict[str, Any]:
    """The place in a cursor: a value of this type for each name. Raises Refused (400, field ``cursor``)."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True)) if len(cursor) <= LONGEST else None
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, dict) or "of" not in found:
        raise _wrong("is not a cursor that this tool gave. Leave it out to begin anew.")
    if found["of"] != of:
        raise _wrong("belongs to another question. Repeat the arguments with which it was given, or leave it out to "
                     "begin anew.")
    values = {name: found.get(name) for name in names}
    for name, kind in names.items():
        value = values[name]
        is_fine = type(value) is kind and (not isinstance(value, int) or -1 <= value <= _LARGEST)
        if not is_fine:
            raise _wrong("is not a cursor that this tool gave. Leave it out to begin anew.")
    return values


def _wrong(message: str) -> Refused:
    return Refused(400, [FieldError("cursor", message)])
