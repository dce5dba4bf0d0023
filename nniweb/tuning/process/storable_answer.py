"""Whether what an algorithm proposes can be stored by both databases and handed to a trial."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

#: Characters of one parameter set as JSON, and levels of its lists and objects (SQLite takes 1,000 levels in all).
LONGEST, DEEPEST = 4 * 1024 * 1024, 100


class NotStorable(Exception):
    """The sentence names the parameter."""


def check(answer: Mapping[str, Any]) -> None:
    """Look at the parameter sets of an answer to ``ask`` or ``ask_for_trials``. Raises NotStorable."""
    for parameters in _sets_of(answer):
        _check(parameters, "", 0)
        if (size := len(json.dumps(parameters))) > LONGEST:
            raise NotStorable(f"a parameter set has {size} characters as JSON, and {LONGEST} are the most. Propose "
                              "smaller values.")


def storable_text(text: str) -> str:
    """What can be stored of a text; a question mark stands for the rest."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def _sets_of(answer: Mapping[str, Any]) -> Iterator[object]:
    yield from answer.get("parameters", ())
    for given in answer.get("given", ()):
        yield given["parameters"]


def _check(value: object, name: str, depth: int) -> None:
    if depth > DEEPEST:
        raise NotStorable(f"the parameter {_first(name)} has more than {DEEPEST} levels of lists and objects")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check(key, f"{name}.{key}" if name else str(key), depth)
            _check(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check(inner, f"{name}[{index}]", depth + 1)
    elif isinstance(value, str):
        if storable_text(value) != value:
            raise NotStorable(f"the parameter {storable_text(name)} contains a character that no text has (U+0000 or "
                              f"half of a pair): {value!a:.100}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise NotStorable(f"the parameter {name} is {value}, which is no number that a trial can be given")
    elif isinstance(value, int) and not -1e300 < value < 1e300:
        raise NotStorable(f"the parameter {name} is an integer of more than 300 digits")


def _first(name: str) -> str:
    return name if len(name) < 40 else f"{name[:40]}..."
