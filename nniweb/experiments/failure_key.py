"""Which failures are equal: those that one mistake makes, in however many trials."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

#: Characters of a message that count.
_COUNTED = 1000
#: A word with a digit in it, as sizes, addresses, ids of trials and their folders have: it differs from trial to trial.
_NUMBERED_WORD = re.compile(r"\S*\d\S*")


def failure_key(message: str, code: str, arguments: Mapping[str, Any]) -> str:
    """A short text that is the same for equal failures: 12 hexadecimal digits.

    ``message``, ``code`` and ``arguments`` are those of the reason why a trial failed (``reasons``). Equal are failures
    with the same code, the same exit code or signal, and the same words, of which those with a digit do not count.
    """
    said = str(arguments.get("last_words") or message)[:_COUNTED]
    equal = [code, arguments.get("exit_code"), arguments.get("signal"), _NUMBERED_WORD.sub("#", said)]
    return hashlib.sha256(json.dumps(equal).encode()).hexdigest()[:12]
