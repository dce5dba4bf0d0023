"""One line of a ``.gitignore``, as git reads it.

What the standard library and others make of such lines differs in details (sets of characters, stars that meet, bytes),
and is a regular expression that a line of some bytes can keep busy for years.
"""

from __future__ import annotations

from dataclasses import dataclass

from trialkeeper.wildcards import DEEP_STAR, NOTHING, STAR, Step, Wildcards, any_character

#: What gives a pattern more than one text that it matches.
_SPECIAL = "*?[\\"
#: POSIX names for sets of characters, among bytes: as in the C locale.
_CLASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")), "alpha": (("A", "Z"), ("a", "z")),
    "blank": (("\t", "\t"), (" ", " ")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")), "digit": (("0", "9"),), "graph": (("!", "~"),), "lower": (("a", "z"),),
    "print": ((" ", "~"),), "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": (("\t", "\r"), (" ", " ")), "upper": (("A", "Z"),), "xdigit": (("0", "9"), ("A", "F"), ("a", "f"))}


@dataclass(frozen=True)
class GitPattern:
    """``ignores``: false for a line with ``!``. ``rest``: what follows the literal beginning, None for nothing."""

    ignores: bool
    only_folders: bool
    #: It is compared with the name alone, in whichever folder.
    at_any_depth: bool
    beginning: str
    rest: Wildcards | None

    def matches(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether it names this very path (bytes as characters, with slashes), whose last part is ``name``."""
        if self.only_folders and not is_folder:
            return False
        text = name if self.at_any_depth else path
        if self.rest is None:
            return text == self.beginning
        return text.startswith(self.beginning) and self.rest.matches(text[len(self.beginning):])


def read_pattern(line: str) -> GitPattern | None:
    """The pattern in a line (without its end; bytes as characters). None for comments, and where nothing can match."""
    if line.startswith("#"):
        return None
    text = _without_spaces_at_end(line.removesuffix("\r").partition("\0")[0])
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    only_folders = text.endswith("/")
    text = text.removesuffix("/")
    at_any_depth = "/" not in text
    text = text.removeprefix("/")
    literal = next((place for place, character in enumerate(text) if character in _SPECIAL), len(text))
    if literal == len(text):
        return GitPattern(ignores, only_folders, at_any_depth, text, None) if text else None
    rest = _wildcards(text[literal:], is_path=not at_any_depth)
    return GitPattern(ignores, only_folders, at_any_depth, text[:literal], rest) if rest is not None else None


def _without_spaces_at_end(line: str) -> str:
    """Spaces at the end do not count, unless a backslash stands before them."""
    kept = len(line.rstrip(" "))
    slashes = kept - len(line[:kept].rstrip("\\"))
    return line[:kept + 1] if slashes % 2 else line[:kept]


def _wildcards(text: str, is_path: bool) -> Wildcards | None:
    """The pattern in ``text``; None where it is not understood, or ends with a backslash: nothing matches it then."""
    steps: list[Step] = []
    star, place = NOTHING, 0
    while place < len(text):
        character = text[place]
        if character == "*":
            end = place
            while text[end:end + 1] == "*":
                end += 1
            stands_alone = is_path and end - place > 1 and (place == 0 or text[place - 1] == "/")
            followed = text[end:end + 2]
            star = DEEP_STAR if stands_alone and (not followed or followed[0] == "/" or followed == "\\/") else STAR
            place = end
            if star == DEEP_STAR and followed.startswith("/"):  # any number of folders, none as well
                if not (steps and steps[-1].optional):
                    steps.append(Step(DEEP_STAR, "/", optional=True))
                star, place = NOTHING, place + 1
            continue
        if character == "?":
            steps.append(any_character(star))
        elif character == "[":
            found = _set(text, place + 1, star)
            if found is None:
                return None
            step, place = found
            steps.append(step)
        else:
            if character == "\\":
                place += 1
                if place == len(text):
                    return None
            steps.append(Step(star, text[place]))
        star, place = NOTHING, place + 1
    return Wildcards(steps, star)


def _set(text: str, place: int, before: int) -> tuple[Step, int] | None:
    """What stands in brackets that were opened before ``place``, and where the closing one is."""
    negated = text[place:place + 1] in ("!", "^")
    place += negated
    ranges: list[tuple[str, str]] = []
    previous, first = "", place
    while place < len(text):
        character = text[place]
        if character == "]" and place > first:
            return Step(before, None, tuple(ranges), negated), place
        if character == "-" and previous and text[place + 1:place + 2] not in ("", "]"):
            place += 1 + (text[place + 1] == "\\")
            ranges.append((previous, text[place:place + 1]))
            previous = ""
        elif text.startswith("[:", place) and (end := text.find("]", place + 2)) > place + 2 and text[end - 1] == ":":
            named = _CLASSES.get(text[place + 2:end - 1])
            if named is None:
                return None
            ranges += named
            previous, place = "", end
        else:
            place += character == "\\"
            previous = text[place:place + 1]
            ranges.append((previous, previous))
        place += 1
    return None
