"""Patterns with ``*``, ``?`` and ``[...]``, matched in one pass over the text.

Such patterns come from people. The standard library turns them into regular expressions, which may take years for a
text of sixty characters, and hold the interpreter meanwhile. Here all places of the pattern that the text may have
reached so far are the bits of one number: each character of the text costs a few operations on it, whatever the
pattern.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

#: What may stand before a step: nothing, any characters but slashes, any characters.
NOTHING, STAR, DEEP_STAR = 0, 1, 2


class Step(NamedTuple):
    """One character of the text: ``literal``, or with None one that lies (``negated``: does not lie) in one of
    ``ranges``, ends included. A slash is matched by its literal only. ``before``: what may precede it.

    ``optional``: the step and what precedes it may be missing. Two steps in a row cannot both be.
    """

    before: int
    literal: Optional[str]
    ranges: Tuple[Tuple[str, str], ...] = ()
    negated: bool = False
    optional: bool = False


class Wildcards:
    """A pattern that was read. May be used from any thread."""

    def __init__(self, steps: List[Step], at_end: int = NOTHING) -> None:
        """``at_end``: what may follow the last step."""
        self._steps = steps
        before = [step.before for step in steps] + [at_end]
        self._stars = _bits([star != NOTHING for star in before])
        self._deep_stars = _bits([star == DEEP_STAR for star in before])
        self._optional = _bits([step.optional for step in steps])
        self._first = 1 | (1 & self._optional) << 1
        self._masks: Dict[str, int] = {}
        self._tail = "" if at_end else _literal_end(steps)
        self._shortest = sum(not step.optional for step in steps)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text. Takes time in proportion to the text's length."""
        if len(text) < self._shortest or not text.endswith(self._tail):  # for most texts that is all
            return False
        masks, optional, state = self._masks, self._optional, self._first
        for character in text:
            mask = masks.get(character)
            if mask is None:
                mask = masks[character] = self._mask(character)
            stay = state & (self._deep_stars if character == "/" else self._stars)
            state = (state & mask) << 1
            state |= (state & optional) << 1 | stay
            if not state:
                return False
        return bool(state >> len(self._steps) & 1)

    def _mask(self, character: str) -> int:
        """The steps that accept a character, as bits."""
        return _bits([_accepts(step, character) for step in self._steps])


def _bits(places: List[bool]) -> int:
    """A number with the bits of those places, the first one lowest."""
    return int("0" + "".join("1" if place else "0" for place in reversed(places)), 2)


def _accepts(step: Step, character: str) -> bool:
    if step.literal is not None or character == "/":
        return step.literal == character
    return any(first <= character <= last for first, last in step.ranges) != step.negated


def _literal_end(steps: List[Step]) -> str:
    """What each text that matches ends with."""
    end = ""
    for step in reversed(steps):
        if step.literal is None or step.optional:
            break
        end = step.literal + end
        if step.before:
            break
    return end


def any_character(before: int) -> Step:
    """The step of a ``?``."""
    return Step(before, None, (), True)


def shell_wildcards(pattern: str) -> Wildcards:
    """Patterns as the standard library's fnmatch has them: ``*``, ``?``, ``[a-c]``, ``[!a-c]``; a ``[`` without end is
    itself. The case of letters counts.
    """
    steps: List[Step] = []
    star = NOTHING
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "*":
            star = STAR
            continue
        end = pattern.find("]", place + (2 if pattern[place:place + 1] == "!" else 1)) if character == "[" else -1
        if character == "?":
            steps.append(any_character(star))
        elif end > 0:
            inner = pattern[place:end]
            negated = inner.startswith("!")
            steps.append(Step(star, None, _ranges(inner[1:] if negated else inner), negated))
            place = end + 1
        else:
            steps.append(Step(star, character))
        star = NOTHING
    return Wildcards(steps, star)


def _ranges(inner: str) -> Tuple[Tuple[str, str], ...]:
    """What stands between brackets."""
    found = []
    place = 0
    while place < len(inner):
        if inner[place + 1:place + 2] == "-" and place + 2 < len(inner):
            found.append((inner[place], inner[place + 2]))
            place += 3
        else:
            found.append((inner[place], inner[place]))
            place += 1
    return tuple(found)
