"""The language of filters: from text to comparisons joined by and, or, not. Knows no fields, and no database."""

import re
from dataclasses import dataclass, replace
from functools import cache

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from trainingservice.limited_json import IN_NO_TEXT
from trainingservice.words.shown_value import shown

#: Longest filter, in characters, and the most comparisons in it.
LONGEST = 2000
MOST_COMPARISONS = 50
#: So deep brackets may be nested, where they mean something: SQLite refuses expressions of some thirty levels.
DEEPEST = 10

# A word is a name, a number, a time ...: what it is, its place says. Keywords are words, too, where none is expected.
GRAMMAR = r"""
?start: either
?either: both ("or"i both)*
?both: one ("and"i one)*
?one: "not"i one -> negation
    | "(" either ")"
    | comparison
comparison: path COMPARES value             -> compared
    | path "contains"i value                -> contained
    | path "in"i "(" value ("," value)* ")"           -> one_of
    | path "not"i "in"i "(" value ("," value)* ")"    -> none_of
    | path                                  -> text
path: (WORD | QUOTED)+
value: (WORD | QUOTED) AGO?
AGO: "ago"i
COMPARES: "!=" | "<=" | ">=" | "==" | "=" | "<" | ">" | "~"
QUOTED: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/i
WORD: /[^\s()=<>!~,"']+/i
%ignore /\s+/
"""


class FilterInvalid(ValueError):
    """A filter that cannot be understood; its text is a sentence. ``start`` to ``end``: what it is about."""

    def __init__(self, sentence: str, start: int, end: int) -> None:
        super().__init__(sentence)
        self.start, self.end = start, end


@dataclass(frozen=True)
class Place:
    """Where something stands in the filter, in characters from 0."""

    start: int
    end: int


@dataclass(frozen=True)
class Term(Place):
    """A value as it was written."""

    text: str
    is_quoted: bool
    #: Written as ``2h ago``.
    is_ago: bool = False


@dataclass(frozen=True)
class Path(Place):
    """What is compared: its parts, which a dot separates where it is not quoted."""

    parts: tuple[str, ...]
    is_quoted: bool

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Comparison:
    #: "=", "!=", "<", "<=", ">", ">=", "~" (contains) or "in".
    operator: str
    path: Path
    values: tuple[Term, ...]


@dataclass(frozen=True)
class Text:
    """Words without a comparison: text that is looked for."""

    term: Term


@dataclass(frozen=True)
class Not:
    inner: "Expression"


@dataclass(frozen=True)
class Joined:
    """All of them, or any of them."""

    all_of: bool
    parts: tuple["Expression", ...]


Expression = Comparison | Text | Not | Joined

#: Terminal of the grammar -> what people call it, in the order in which an error names them.
_NAMES = {"WORD": "a field or value", "COMPARES": "a comparison (= != < <= > >= ~)", "CONTAINS": "'contains'",
          "IN": "'in'", "AND": "'and'", "OR": "'or'", "LPAR": "'('", "RPAR": "')'", "COMMA": "a comma"}


def parse(text: str) -> Expression:
    """The filter as a tree. Raises FilterInvalid."""
    if len(text) > LONGEST:
        raise FilterInvalid(f"The filter is longer than {LONGEST} characters.", LONGEST, len(text))
    if (bad := IN_NO_TEXT.search(text)) is not None:
        raise FilterInvalid(f"{shown(bad[0])} is not allowed in text, so it cannot be part of a filter.", *bad.span())
    try:
        tree: Expression = _parser().parse(text)  # type: ignore[assignment]  # the transformer makes it of Lark's own
    except UnexpectedToken as unexpected:
        token: Token = unexpected.token
        expected = _words(unexpected.expected)
        if token.type == "$END":
            sentence = f"The filter ends too early. Expected: {expected}."
            raise FilterInvalid(sentence, len(text), len(text)) from None
        start = token.start_pos or 0
        sentence = f"{shown(str(token))} is not expected here. Expected: {expected}."
        raise FilterInvalid(sentence, start, start + len(token)) from None
    except UnexpectedCharacters as unexpected:
        start = unexpected.pos_in_stream or 0
        found = text[start]
        sentence = f"The text in quotes that begins here is not closed. A second {found} is missing." \
            if found in "\"'" else f"{shown(found)} is not expected here. Expected: {_words(unexpected.allowed or ())}."
        raise FilterInvalid(sentence, start, start + 1) from None
    comparisons, depth = _size(tree)
    if comparisons > MOST_COMPARISONS:
        raise FilterInvalid(f"The filter has more than {MOST_COMPARISONS} comparisons.", 0, len(text))
    if depth > DEEPEST:
        raise FilterInvalid(f"The filter's brackets are nested more than {DEEPEST} deep.", 0, len(text))
    return tree


@cache
def _parser() -> Lark:
    # the transformer works while it is parsed: nothing recurses, however deep brackets are nested
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=_Reader())


def _size(tree: Expression) -> tuple[int, int]:
    """How many comparisons it has, and how deep it is."""
    left, count, deepest = [(tree, 0)], 0, 0
    while left:
        one, depth = left.pop()
        deepest = max(deepest, depth)
        if isinstance(one, Joined):
            left += [(part, depth + 1) for part in one.parts]
        elif isinstance(one, Not):
            left.append((one.inner, depth))
        else:
            count += 1
    return count, deepest


def _words(terminals: object) -> str:
    wanted = [name for terminal, name in _NAMES.items() if terminal in terminals]  # type: ignore[operator]
    return " or ".join(filter(None, [", ".join(wanted[:-1]), *wanted[-1:]])) or "its end"


def _term(token: Token) -> Term:
    start, end = token.start_pos or 0, token.end_pos or 0
    if token.type == "QUOTED":
        return Term(start, end, re.sub(r"\\(.)", r"\1", token[1:-1]), True)
    return Term(start, end, str(token), False)


@v_args(inline=True)
class _Reader(Transformer[Token, Expression]):
    """Makes the tree of what the parser finds."""

    def value(self, token: Token, ago: Token | None = None) -> Term:
        return replace(_term(token), is_ago=ago is not None)

    def path(self, *tokens: Token) -> Path:
        parts: list[str] = []
        end = tokens[0].start_pos or 0
        for token in tokens:
            term = _term(token)
            if term.start != end:
                raise FilterInvalid(f"Between {shown(str(tokens[0]))} and {shown(str(token))} a comparison such as "
                                    "= or < is "
                                    "missing. Put names with spaces in quotes.", term.start, term.end)
            end = term.end
            parts += [term.text] if term.is_quoted else [part for part in term.text.split(".") if part]
        return Path(tokens[0].start_pos or 0, end, tuple(parts), any(token.type == "QUOTED" for token in tokens))

    def compared(self, path: Path, operator: Token, value: Term) -> Comparison:
        return Comparison("=" if operator == "==" else str(operator), path, (value,))

    def contained(self, path: Path, value: Term) -> Comparison:
        return Comparison("~", path, (value,))

    def one_of(self, path: Path, *values: Term) -> Comparison:
        return Comparison("in", path, values)

    def none_of(self, path: Path, *values: Term) -> Expression:
        return Not(Comparison("in", path, values))

    def text(self, path: Path) -> Text:
        return Text(Term(path.start, path.end, str(path), path.is_quoted))

    def negation(self, inner: Expression) -> Expression:
        return inner.inner if isinstance(inner, Not) else Not(inner)

    def both(self, *parts: Expression) -> Joined:
        return Joined(True, parts)

    def either(self, *parts: Expression) -> Joined:
        return Joined(False, parts)
