"""What is wrong with a text that is no YAML, and where: the mistake, not where the parser noticed it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

UNCLEAR = "compare the colons, quotes, brackets and the indentation with the lines before"
_NO_COLON = "a line without a colon; write name: value, or put text of several lines in quotes"
_NO_BLANK = "a blank is missing after the colon; write name: value"
_NOT_OPENED = "a closing bracket that nothing opened; remove it"
_NOT_CLOSED = "a bracket opens here and is not closed"
#: How PyYAML's messages begin, and what to say instead.
_WORDS = {
    "mapping values are not allowed": "a second colon in the line; put text with a colon and a blank in it in quotes",
    "could not find expected ':'": _NO_COLON,
    "expected <block end>, but found ']'": _NOT_OPENED,
    "expected <block end>, but found '}'": _NOT_OPENED,
    "expected <block end>": "the line is indented otherwise than those it belongs to",
    "expected the node content": "a value is missing, or a bracket or quote stands where none belongs",
    "expected '<document start>'": "the line is indented less than the first one; let all names at the top begin in "
                                   "the same column",
    "but found another document": "a second document begins with ---; give one",
    "expected ',' or": "a comma or the closing bracket is missing",
    "found unexpected end of stream": "a quote opens here and is not closed",
    "found unexpected document separator": "a quote opens here and is not closed",
    "found unknown escape character": "a backslash in double quotes; use single quotes, or two backslashes",
    "found undefined alias": "the name behind * is given to nothing with & before",
    "found duplicate anchor": "two values have the same name behind &",
    "found character": "text that begins with @, `, % or a tab; put it in quotes",
    "could not find expected": "a line without a colon; write name: value",
}
#: The start of a field: its indentation and what follows its name.
_FIELD = re.compile(r"( *)[\w.\"'-]+ *:(?: |$)")
_NAME_WITHOUT_BLANK = re.compile(r" *(?:- +)?[A-Za-z_][\w-]*:[^ /]")


@dataclass(frozen=True)
class Fault:
    """``line`` and ``column`` from 1; None where the parser named no place."""

    words: str
    line: int | None
    column: int | None


def fault_of(error: yaml.MarkedYAMLError, text: str) -> Fault:
    """What PyYAML's error on this text means."""
    problem = error.problem or error.context or "unreadable"
    mark = error.problem_mark or error.context_mark
    if "found character '\\t'" in problem:
        return _at(mark, "is not valid YAML: a line is indented with a tab; use spaces")
    if "could not determine a constructor" in problem:
        return _at(mark, "is not valid YAML here: tags such as !name or !!python are not read")
    words = next((said for start, said in _WORDS.items() if problem.startswith(start)), UNCLEAR)
    lines = text.splitlines()
    begun = error.context_mark
    if begun is not None and problem.startswith(("could not find expected ':'", "found unexpected")):
        mark = begun
        if words == _NO_COLON and _NAME_WITHOUT_BLANK.match(_line(lines, begun.line)):
            words = _NO_BLANK
    elif begun is not None and problem.startswith("expected ',' or") and mark \
            and ("<stream end>" in problem or _is_past(lines, begun, mark)):
        mark, words = begun, _NOT_CLOSED
    elif problem.startswith("mapping values") and mark:
        if (before := _line_without_colon(lines, mark.line)) is not None:
            words = _NO_BLANK if _NAME_WITHOUT_BLANK.match(lines[before]) else _NO_COLON
            return Fault(f"is not valid YAML here: {words}", before + 1, _indentation(lines[before]) + 1)
        if _line(lines, mark.line).find(":") == mark.column:
            words = "the line is indented further than those it belongs to"
    return _at(mark, f"is not valid YAML here: {words}")


def _at(mark: yaml.Mark | None, words: str) -> Fault:
    return Fault(words, None, None) if mark is None else Fault(words, mark.line + 1, mark.column + 1)


def _line(lines: list[str], number: int) -> str:
    return lines[number] if number < len(lines) else ""


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_past(lines: list[str], opened: yaml.Mark, noticed: yaml.Mark) -> bool:
    """Whether the parser noticed at the next field that a bracket was not closed."""
    field = _FIELD.match(_line(lines, noticed.line))
    return noticed.line > opened.line and field is not None \
        and len(field[1]) <= _indentation(_line(lines, opened.line))


def _line_without_colon(lines: list[str], number: int) -> int | None:
    """The line before this one where it stands in the same column and has no colon: the parser read both as one."""
    before = next((each for each in range(number - 1, -1, -1) if _line(lines, each).strip()), None)
    if before is None or _FIELD.match(lines[before]):
        return None
    return before if _indentation(lines[before]) == _indentation(_line(lines, number)) else None
