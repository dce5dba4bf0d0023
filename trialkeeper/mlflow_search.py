"""The filters and orders of ``mlflow.search_runs``: ``tags.kind = 'a' and metrics.acc > 0.9``, ``metrics.acc DESC``."""

import operator
import re
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from trialkeeper.mlflow_words import Document, invalid

_FIELD = r"(?:(metrics?|params?|parameters?|tags?|attributes?|attr|run)\.)?(`[^`]+`|\"[^\"]+\"|[\w./-]+)"
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_COMPARISON = re.compile(
    r"\s*%s\s*(>=|<=|!=|=|>|<|\bNOT\s+LIKE\b|\bI?LIKE\b|\bIN\b|\bNOT\s+IN\b|\bIS\s+NULL\b|\bIS\s+NOT\s+NULL\b)"
    r"\s*(%s|\(\s*(?:%s)(?:\s*,\s*(?:%s))*\s*\)|[-+.\w]+)?\s*(?:\bAND\b|\Z)"
    % (_FIELD, _TEXT, _TEXT, _TEXT), re.IGNORECASE)
_ORDER = re.compile(r"\s*%s(?:\s+(ASC|DESC))?\s*\Z" % _FIELD, re.IGNORECASE)
_NUMBERS: Dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
#: Characters of a filter; what is longer is refused.
LONGEST_FILTER = 10_000


class _Comparison(NamedTuple):
    kind: str
    name: str
    sign: str
    value: Any

    def holds(self, run: Document) -> bool:
        found = _value(run, self.kind, self.name)
        if self.sign.startswith("IS "):
            return (found is None) == (self.sign == "IS NULL")
        if found is None:
            return False
        if self.sign in _NUMBERS:
            return _NUMBERS[self.sign](*_alike(found, self.value))
        if self.sign.endswith("IN"):
            return (str(found) in self.value) == (self.sign == "IN")
        text, pattern = (str(found).lower(), self.value.lower()) if self.sign == "ILIKE" else (str(found), self.value)
        return _is_like(text, pattern) == (self.sign != "NOT LIKE")


def matching(runs: List[Document], given: Document) -> List[Document]:
    """Those of the runs (as MLflow's documents, the newest first) that are asked for, in the order that is asked for.

    Raises CallRefused where the filter or the order is not understood.
    """
    comparisons = _comparisons(str(given.get("filter") or ""))
    found = [run for run in runs if all(one.holds(run) for one in comparisons)]
    for order in reversed(given.get("order_by") or []):
        match = _ORDER.match(str(order)[:LONGEST_FILTER])
        if match is None:
            raise invalid("the order %.200r is not understood here" % (order,))
        kind, name = _field(match.group(1), match.group(2))
        is_reversed = (match.group(3) or "").upper() == "DESC"
        # what has no value, or one that is no number, stands last in both directions
        sortable = [(run, _value(run, kind, name)) for run in found]
        without = [run for run, value in sortable if value is None or value != value]
        with_it = [(run, value) for run, value in sortable if value is not None and value == value]
        with_it.sort(key=lambda one: (isinstance(one[1], str), one[1]), reverse=is_reversed)
        found = [run for run, _ in with_it] + without
    return found


def _comparisons(text: str) -> List[_Comparison]:
    if len(text) > LONGEST_FILTER:
        raise invalid("a filter may have %d characters" % LONGEST_FILTER)
    found, at = [], 0
    while text[at:].strip():
        match = _COMPARISON.match(text, at)
        sign = "" if match is None else " ".join(match.group(3).upper().split())
        if match is None or match.end() == at or (match.group(4) is None) != sign.startswith("IS "):
            raise invalid("the filter %.200r is not understood here: comparisons that are joined by AND can be used"
                          % text[at:])
        kind, name = _field(match.group(1), match.group(2))
        value: Any = match.group(4)
        if sign.endswith("IN"):
            value = [_unquoted(one) for one in re.findall(_TEXT, value or "")]
        elif value is not None:
            value = _unquoted(value)
        found.append(_Comparison(kind, name, sign, value))
        at = match.end()
    return found


def _is_like(text: str, pattern: str) -> bool:
    """``%`` stands for any text. ``_`` stands for itself: it is in most names."""
    first, *others = pattern.split("%")
    if not others:
        return text == first
    if not text.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(text) - at >= len(others[-1]) and text.endswith(others[-1])


def _field(kind: str, name: str) -> Tuple[str, str]:
    return (kind or "attribute").lower()[0], name.strip("`\"")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in "'\"" else text


def _value(run: Document, kind: str, name: str) -> Any:
    """None where the run has none. ``kind``: the first letter of the word."""
    if kind in "ar":
        return run["info"].get({"run_name": "run_name", "artifact_location": "artifact_uri", "created": "start_time"}
                               .get(name.lower().replace(" ", "_"), name))
    items = run["data"][{"m": "metrics", "p": "params", "t": "tags"}[kind]]
    value = next((item["value"] for item in items if item["key"] == name), None)
    return float(value) if kind == "m" and value is not None else value


def _alike(found: Any, value: str) -> Tuple[Any, Any]:
    """Both as numbers where the run has one."""
    if isinstance(found, str):
        return found, value
    try:
        return float(found), float(value)
    except (TypeError, ValueError):
        raise invalid("%.200r is compared with a number, and is none" % (value,)) from None
