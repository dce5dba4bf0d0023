"""Templates in a job document: which texts the server reads as such, and which of them it answers with a fault (500).

The server takes ``<% name %>`` for a name to fill in. A sign after ``<%`` gives the tag another meaning, as in
Mustache: ``#`` and ``^`` open a section that ``/`` with the same name closes, ``{`` wants ``}%>`` as its end, ``=``
changes the marks ``<%`` and ``%>`` themselves. A tag without its end and a section without its other half are faults.
What tags with a sign stand for is left out of the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainingservice.words.shown_value import shown

#: What counts as white space there: what a regular expression of JavaScript takes for it.
_SPACE = r"[\s\ufeff]*"
_IS_SPACE = re.compile(r"[\s\ufeff]").match


def problem(text: str) -> str:
    """What is wrong with the text as a template, "" where nothing is."""
    begin, end = "<%", "%>"
    sections: list[str] = []
    place = 0
    while (start := text.find(begin, place)) >= 0:
        tag = _tag(text, start + len(begin), end)
        if tag is None:
            return f"has a {begin} without its {end}"
        sign, name, place = tag
        if sign in ("#", "^"):
            sections.append(name)
        elif sign == "/" and (not sections or sections.pop() != name):
            return f"closes a section with {begin}/ that is not open"
        elif sign == "=":
            marks = re.split(r"[\s\ufeff]+", name)[:2]
            if len(marks) != 2:
                return f"has a {begin}= that does not name two marks"
            begin, end = marks
    return f"opens a section {shown(sections[-1])} that is not closed" if sections else ""


def _tag(text: str, place: int, end: str) -> tuple[str, str, int] | None:
    """Of the tag whose inside begins here: its sign, its name, the place after it. None where it has no end."""
    opened = re.compile(rf"{_SPACE}([#^/>{{&=!]?){_SPACE}").match(text, place)
    assert opened is not None  # it matches the empty text, too
    sign, place = opened[1], opened.end()
    if sign == "=":
        name_end = _find(text, "=", place)
        tag_end = _find(text, end, name_end[1]) if name_end else None
    elif sign == "{":
        name_end = tag_end = _find(text, "}" + end, place)
    else:
        name_end = tag_end = _find(text, end, place)
    if name_end is None or tag_end is None:
        return None
    return sign, text[place:name_end[0]], tag_end[1]


def _find(text: str, mark: str, place: int) -> tuple[int, int] | None:
    """Where the next ``mark`` begins, with the white space before it, and where it ends. Each character is looked at
    once, however much white space there is.
    """
    start = text.find(mark, place)
    if start < 0:
        return None
    end = start + len(mark)
    while start > place and _IS_SPACE(text[start - 1]):
        start -= 1
    return start, end


def template_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Of a document that fits the schema: the texts that the server reads as templates and cannot read."""
    for number, entry in enumerate(document.get("prerequisites") or []):
        for key, text in (entry.get("auth") or {}).items() if entry["type"] == "dockerimage" else ():
            place = f"prerequisites[{number}].auth.{key}"
            if isinstance(text, str) and (wrong := problem(text)):
                yield f"{place} {wrong}"
            elif not isinstance(text, str) and (text or isinstance(text, list | dict)):
                yield f"{place} must be string, not {shown(text)}"
    for role, commands in all_commands(document).items():
        if wrong := problem("\n".join(line.strip() for line in commands)):
            yield f"taskRoles.{role}.commands {wrong}"


def all_commands(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of a valid document: the commands of each role, with those that its default deployment puts around them."""
    deployment = default_deployment(document)
    around = (deployment or {}).get("taskRoles")
    around = around if isinstance(around, dict) else {}
    found = {}
    for name, role in document["taskRoles"].items():
        more = around.get(name) or {}
        found[name] = [*(more.get("preCommands") or []), *role["commands"], *(more.get("postCommands") or [])]
    return found


def default_deployment(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Of a valid document: the deployment that it names as its default, None where it names none."""
    name = (document.get("defaults") or {}).get("deployment")
    return next((entry for entry in document.get("deployments") or [] if entry["name"] == name), None)
