"""A job document as the text that is sent.

The server reads it by another YAML library than the one that writes it here. What is text to one (``1e3``) is a number
to the other, so each text is written in double quotes, and no text is broken into lines. The names of the top level
stay plain: the server hides what stands between the line ``secrets:`` and the next line that begins with a letter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml


class _TopName(str):
    """A name of the document's top level. All that the protocol has are plain words in both libraries."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # an alias would stand for what is hidden


_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
_Dumper.add_representer(_TopName, lambda dumper, name: dumper.represent_scalar("tag:yaml.org,2002:str", str(name)))


def document_text(document: Mapping[str, Any]) -> bytes:
    """The document as it is sent: YAML in ASCII."""
    named = {_TopName(name): part for name, part in document.items()}
    return yaml.dump(named, Dumper=_Dumper, sort_keys=False, width=math.inf).encode()
