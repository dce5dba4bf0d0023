"""Changes to an experiment's code that a trial brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A path in the code -> the whole new text; None: the file is removed.
Files = Mapping[str, str | None]


def with_variant(body: Mapping[str, Any], patch: str | None, files: Files | None) -> dict[str, Any]:
    """The body of a request, and what changes in the code, where something does. Raises ValueError for both at once."""
    if patch is not None and files is not None:
        raise ValueError("give either patch or files")
    if patch is not None:
        return {**body, "variant": {"patch": patch}}
    return dict(body) if files is None else {**body, "variant": {"files": dict(files)}}
