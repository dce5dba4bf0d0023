"""Parameters in a trial's command: ``{lr}``, ``{args}`` and ``{hydra}``, put in as words that the shell leaves alone.

Only the names of parameters are replaced. All other braces keep their meaning: ``${HOME}``, ``{a,b}``.
The text is read as bash reads it, as far as that says in which quotes a name stands. ``{{lr}}`` stands for ``{lr}``.
"""

import re
import shlex
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from trialkeeper import contract
from trialkeeper.trial_parameters import (
    FILE_VARIABLE,
    as_arguments,
    as_overrides,
    parameter_variables,
    parameters_in,
    text_of,
    write_parameters_file,
)

#: Stand for all parameters, unless a parameter has this name.
ARGUMENTS, OVERRIDES = "args", "hydra"
#: Characters; what is longer is no name.
LONGEST_NAME = 1000
#: Quotes and parentheses within each other; where they are more nothing is put in. How often all parameters at once may
#: stand in quotes; others are left as they are.
DEEPEST, MOST_IN_QUOTES = 100, 20
_SINGLE, _DOUBLE, _ANSI, _VARIABLE, _BACKTICK, _PARENTHESIS = "'", '"', "$'", "${", "`", "("
_SUBSTITUTION, _ARITHMETIC, _OLD_ARITHMETIC = "$(", "((", "$["
_CLOSED_BY = {_DOUBLE: '"', _VARIABLE: "}", _BACKTICK: "`", _PARENTHESIS: ")", _SUBSTITUTION: ")", _ARITHMETIC: ")",
              _OLD_ARITHMETIC: "]"}
_IN_QUOTES = (_SINGLE, _DOUBLE)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
#: What a backslash is taken from in double quotes.
_ESCAPED = re.compile(r'\\(["\\$`])')
#: Its patterns end with a parenthesis that was not opened.
_CASE = re.compile(r"case\s")


class Given(NamedTuple):
    """What a trial gets of its parameters without ``nni``."""

    command: str
    variables: Dict[str, str]


def given_without_nni(job: contract.JobDocument, text: str, folder: str) -> Given:
    """The command and the variables with the parameters. ``text``: of the parameter file. ``folder``: where the file
    with the flat ones is written. Raises OSError.
    """
    parameters = parameters_in(text)
    variables = parameter_variables(parameters)
    variables[FILE_VARIABLE] = write_parameters_file(folder, parameters)
    return Given(fill(job["command"], parameters, job.get("parameter_names") or ()), variables)


class Place(NamedTuple):
    """Something in braces: ``{name}`` is ``command[start:end]``."""

    name: str
    start: int
    end: int
    #: "", or the quotes around it; "((" in arithmetic, where quotes do not hold and numbers alone are put in; None
    #: where nothing can be put in (backquotes, here-documents, ``$'...'``, ``${...}``).
    quotes: Optional[str]
    #: Whether it is ``{{name}}``; then the outer braces belong to it.
    is_escaped: bool
    #: Of all parameters at once in quotes: the quotes in which the shell that is given the quoted text has them, then
    #: those of the shell that is given theirs, and so on.
    further_quotes: Tuple[str, ...] = ()


def fill(command: str, parameters: Dict[str, Any], possible: Sequence[str] = ()) -> str:
    """The command with the parameters in it. ``possible``: names of others, which this trial lacks: they are empty."""
    if "{" not in command:
        return command
    names = {ARGUMENTS, OVERRIDES, *possible, *parameters}
    done, at = [], 0
    for place in places(command):
        if place.name not in names or place.quotes is None:
            continue
        filled = "{%s}" % place.name if place.is_escaped else _put_in(place, parameters)
        if place.quotes == _ARITHMETIC and not place.is_escaped and not _NUMBER.fullmatch(filled):
            continue
        done += [command[at:place.start], filled]
        at = place.end
    return "".join(done) + command[at:]


def _put_in(place: Place, parameters: Dict[str, Any]) -> str:
    name = place.name
    if name in (ARGUMENTS, OVERRIDES) and name not in parameters:
        words = as_arguments(parameters) if name == ARGUMENTS else as_overrides(parameters)
        text = " ".join(map(shlex.quote, words))
        for quotes in (*reversed(place.further_quotes), place.quotes):
            text = _within(text, quotes)
        return text
    value = text_of(parameters.get(name, ""))
    if place.quotes == _ARITHMETIC:
        return value
    word = shlex.quote(value)
    return value if word == value else "%s%s%s" % (place.quotes, word, place.quotes)


def _within(text: str, quotes: Optional[str]) -> str:
    """Text for a further shell that is called with what stands in these quotes."""
    if quotes == _SINGLE:
        return text.replace("'", "'\"'\"'")
    if quotes == _DOUBLE:
        return "".join("\\" + sign if sign in '\\"$`' else sign for sign in text)
    return text


def places(command: str) -> Iterator[Place]:
    """What stands in braces that are neither escaped nor those of ``${...}``, from left to right."""
    end, in_quotes = 0, 0
    for start, quotes, quoted in _braces(command):
        if start < end:
            continue
        close = command.find("}", start, start + LONGEST_NAME + 3)
        if close < 0:
            continue
        is_escaped = command.startswith("{{", start) and command.startswith("}}", close)
        name = command[start + (2 if is_escaped else 1):close]
        if "{" in name:
            continue
        end = close + (2 if is_escaped else 1)
        further: Optional[Tuple[str, ...]] = ()
        if name in (ARGUMENTS, OVERRIDES) and quotes in _IN_QUOTES:
            in_quotes += 1
            further = _further_quotes(command[quoted:start], quotes) if in_quotes <= MOST_IN_QUOTES else None
        yield Place(name, start, end, None if further is None else quotes, is_escaped, further or ())


def _further_quotes(before: str, quotes: Optional[str]) -> Optional[Tuple[str, ...]]:
    """Place.further_quotes of what stands behind this in quotes. None where nothing can be put in."""
    found: List[str] = []
    while quotes in _IN_QUOTES and len(found) < DEEPEST:
        text = before if quotes == _SINGLE else _ESCAPED.sub(r"\1", before)
        for _, quotes, quoted in _braces(text + "{"):  # noqa: B007  # the last one counts
            before = text[quoted:]
        if quotes is None or quotes == _ARITHMETIC:
            return None
        if quotes:
            found.append(quotes)
    return tuple(found)


def _braces(command: str) -> Iterator[Tuple[int, Optional[str], int]]:
    """Where braces are opened, the quotes around them (Place.quotes), and where what is quoted begins."""
    modes: List[str] = []
    begins: List[int] = []  # of each of these
    at, before, has_document = 0, "\n", False
    while at < len(command) and len(modes) <= DEEPEST:
        sign, mode = command[at], modes[-1] if modes else ""
        step = 1
        if sign == "{":
            yield at, _quotes(modes), begins[-1] if begins else 0
        elif sign == "\\" and mode != _SINGLE:
            step = 2
        elif mode in (_SINGLE, _ANSI):
            if sign == "'":
                modes.pop()
        elif sign == _CLOSED_BY.get(mode):
            modes.pop()
        elif command.startswith(("$(", "${", "$["), at):
            modes.append(command[at:at + 2])
            step = 2
            if command.startswith("$((", at):
                modes.append(_ARITHMETIC)
                step = 3
        elif sign == "`":
            modes.append(_BACKTICK)
        elif sign == '"':
            modes.append(_DOUBLE)
        elif sign == "'" and mode == _VARIABLE:
            if _DOUBLE in _since_substitution(modes):
                break  # it depends on the operator whether this begins quotes
            modes.append(_SINGLE)
        elif mode not in (_DOUBLE, _VARIABLE, _BACKTICK):
            if has_document and sign == "\n" or _SUBSTITUTION in modes and before.isspace() | (before in ";|&({") \
                    and _CASE.match(command, at):
                break
            step, has_document = _step_outside_quotes(command, at, before, modes, has_document)
        before = "\\" if sign == "\\" else command[at:at + step][-1:]
        at += step
        del begins[len(modes):]
        begins += [at] * (len(modes) - len(begins))
    yield from ((found, None, 0) for found in range(at, len(command)) if command[found] == "{")


def _since_substitution(modes: List[str]) -> List[str]:
    """Those within the innermost ``$(...)``, which begins anew."""
    for place in range(len(modes) - 1, -1, -1):
        if modes[place] == _SUBSTITUTION:
            return modes[place + 1:]
    return modes


def _quotes(modes: List[str]) -> Optional[str]:
    inner = _since_substitution(modes)
    if _BACKTICK in modes or _ANSI in inner or _VARIABLE in inner:
        return None
    if _ARITHMETIC in inner or _OLD_ARITHMETIC in inner:
        return _ARITHMETIC
    return inner[-1] if inner and inner[-1] in _IN_QUOTES else ""


def _step_outside_quotes(command: str, at: int, before: str, modes: List[str], has_document: bool) -> Tuple[int, bool]:
    """How far to go on, and whether a here-document was announced."""
    sign = command[at]
    if command.startswith("$'", at):
        modes.append(_ANSI)
        return 2, has_document
    if command.startswith("((", at) and before in "\n\t ;|&":
        modes += [_PARENTHESIS, _ARITHMETIC]
        return 2, has_document
    if sign in "'(":
        modes.append(_SINGLE if sign == "'" else _PARENTHESIS)
    elif sign == "#" and before in "\n\t ;|&()":
        newline = command.find("\n", at)
        return (newline if newline >= 0 else len(command)) - at, has_document
    elif command.startswith("<<<", at):
        return 3, has_document
    elif command.startswith("<<", at) and _ARITHMETIC not in modes and _OLD_ARITHMETIC not in modes:  # no shift
        return 2, True
    return 1, has_document
