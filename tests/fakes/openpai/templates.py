"""Templates as OpenPAI's rest-server fills them in: its ``render`` on mustache 2.3.2, which its lock file pins.

Mustache cuts the text into tokens at ``<%`` and ``%>``. The server keeps text and names; what other tags bring
(sections, comments, partials, unescaped values) is left out of the command without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.js_yaml import text_of

#: What JavaScript takes for white space.
_SPACE = r"[\s\ufeff]*"


class Unreadable(Exception):
    """Mustache throws. The rest-server answers 500 then."""


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """``values``: by their names with the dollar sign. Unknown names stay as they are."""
    text = ""
    for kind, token, depth in _tokens(template):
        if depth:
            continue  # inside a section
        if kind == "text":
            text += token
        elif kind == "name":
            name = re.sub(r"\[(\d+)\]", r".\1", token)
            value = _looked_up(values, name)
            text += f"<% {name} %>" if value is None else text_of(value)
    return text.strip()


def _looked_up(values: Mapping[str, Any], name: str) -> Any:
    found: Any = values
    for part in name.split(".") if name.find(".") > 0 else [name]:
        if isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, Mapping) and part in found:
            found = found[part]
        else:
            return None
    return found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def take(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.text, self.place)
        if found is None:
            return ""
        self.place = found.end()
        return found[0]

    def take_until(self, pattern: str) -> str:
        found = re.compile(pattern).search(self.text, self.place)
        start, self.place = self.place, len(self.text) if found is None else found.start()
        return self.text[start:self.place]


def _tokens(template: str) -> list[tuple[str, str, int]]:
    """Kind, text, and in how many sections it stands. Raises Unreadable."""
    opening, closing = re.escape("<%"), re.escape("%>")
    scanner = _Scanner(template)
    tokens: list[tuple[str, str, int]] = []
    line: list[int] = []  # white space of the current line, by its number among the tokens
    sections: list[str] = []
    has_tag = has_text = False

    def end_of_line() -> None:
        """A line with nothing but sections, comments and white space goes."""
        nonlocal has_tag, has_text
        if has_tag and not has_text:
            for number in line:
                tokens[number] = ("gone", "", 0)
        line.clear()
        has_tag = has_text = False

    while scanner.place < len(template):
        for character in scanner.take_until(opening + _SPACE):
            if character.isspace() or character == "\ufeff":
                line.append(len(tokens))
            else:
                has_text = True
            tokens.append(("text", character, len(sections)))
            if character == "\n":
                end_of_line()
        if not scanner.take(opening + _SPACE):
            break
        has_tag = True
        kind = scanner.take(r"[#^/>{&=!]") or "name"
        scanner.take(_SPACE)
        if kind == "=":
            value = scanner.take_until(_SPACE + "=")
            scanner.take(_SPACE + "=")
            scanner.take_until(_SPACE + closing)
        elif kind == "{":
            value = scanner.take_until(_SPACE + r"\}" + closing)
            scanner.take(_SPACE + r"\}")
            scanner.take_until(_SPACE + closing)
        else:
            value = scanner.take_until(_SPACE + closing)
        if not scanner.take(_SPACE + closing):
            raise Unreadable(f"Unclosed tag at {scanner.place}")
        if kind == "/":
            if not sections:
                raise Unreadable(f'Unopened section "{value}"')
            if sections.pop() != value:
                raise Unreadable("Unclosed section")
        tokens.append((kind, value, len(sections)))
        if kind in "#^":
            sections.append(value)
        elif kind in ("name", "{", "&"):
            has_text = True
        elif kind == "=":
            tags = re.split(r"[\s\ufeff]+", value)[:2]
            if len(tags) != 2:
                raise Unreadable(f"Invalid tags: {value}")
            opening, closing = map(re.escape, tags)
    if sections:
        raise Unreadable(f'Unclosed section "{sections[-1]}"')
    return tokens
