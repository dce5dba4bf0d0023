"""The text of a config file without its secrets: what is stored, and what is given back to people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from nniweb.experiments.config.yaml_positions import Path, SourceDocument

MASK = "***"
# an anchor or a tag in front of a value belongs to its node and must stay, or the rest is no YAML any more
_PREFIX = re.compile(r"(?:[&!]\S*\s+)*")


def redacted_text(text: str | None, source: SourceDocument, secrets: Iterable[Path]) -> str:
    """``text`` with the value at each of ``secrets`` (paths as the caller spelt them) masked.

    Where there is no text, or the place of a secret in it is not known, the values are given as
    JSON instead.
    """
    raw_paths = list(secrets)
    places = [source.places.get(raw) for raw in raw_paths]
    if text is None or None in places:
        return json.dumps(_masked(source.data, (), set(raw_paths)), indent=2, ensure_ascii=False)
    result = text.removeprefix("\ufeff")
    spans = {(place.start, place.end) for place in places if place is not None}
    for start, end in sorted(spans, reverse=True):
        prefix = _PREFIX.match(result, start, end)
        start = prefix.end() if prefix is not None else start
        tail = "\n" if result[start:end].endswith("\n") else ""
        result = f'{result[:start]}"{MASK}"{tail}{result[end:]}'
    return result


def _masked(value: Any, path: Path, secrets: set[Path]) -> Any:
    if path in secrets:
        return MASK
    if isinstance(value, Mapping):
        return {key: _masked(item, (*path, key), secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, (*path, index), secrets) for index, item in enumerate(value)]
    return value
