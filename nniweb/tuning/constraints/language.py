"""The language of constraints: from text to a tree. Knows neither parameters nor metrics.

As filters of trials (``and or not in = != < <=``, any letter case, positions in messages), with arithmetic. Lark reads
it with an LALR parser, whose time grows with the length of the text alone; the transformer works while it is parsed, so
that nothing recurses before the depth of the tree is known.
"""

from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from nniweb.tuning.constraints.nodes import (
    Arithmetic,
    Call,
    Comparison,
    ExpressionInvalid,
    Joined,
    Literal,
    Name,
    Node,
    Not,
    OneOf,
    nodes_of,
)
from trainingservice.words.shown_value import shown

#: Longest constraint, in characters, and how deep brackets, signs and powers may be nested in it.
LONGEST = 2000
DEEPEST = 30

GRAMMAR = r"""
?start: either
?either: both ("or"i both)*
?both: opposite ("and"i opposite)*
?opposite: "not"i opposite -> negation
    | comparison
?comparison: sum
    | sum (COMPARES sum)+               -> compared
    | sum "in"i listed                  -> one_of
    | sum "not"i "in"i listed           -> none_of
listed: "(" sum ("," sum)* ","? ")"
?sum: product (SIGN product)*           -> chain
?product: signed (TIMES signed)*        -> chain
?signed: SIGN signed                    -> sign
    | power
?power: atom (POWER signed)?
?atom: NUMBER                           -> number
    | TEXT                              -> text
    | (TRUE | FALSE | NONE)             -> word
    | WORD "(" either ("," either)* ")" -> call
    | path
    | "(" either ")"
path: (WORD | QUOTED) ("." (WORD | QUOTED))*
COMPARES: "!=" | "<=" | ">=" | "==" | "=" | "<" | ">"
SIGN: "+" | "-"
POWER.2: "**"
TIMES: "*" | "//" | "/" | "%"
NUMBER: /([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?/i
TEXT: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
QUOTED: /`[^`]+`/
TRUE: "true"i
FALSE: "false"i
NONE: "none"i
WORD: /[^\W\d]\w*/i
%ignore /\s+/
"""

#: Function -> how many arguments it takes, at least and at most.
FUNCTIONS = {"min": (1, 50), "max": (1, 50), "abs": (1, 1), "sqrt": (1, 1), "exp": (1, 1), "log": (1, 1),
             "log2": (1, 1), "log10": (1, 1), "round": (1, 1), "floor": (1, 1), "ceil": (1, 1)}


#: Terminal of the grammar -> what people call it, in the order in which an error names them.
_NAMES = {"WORD": "a name", "NUMBER": "a number", "TEXT": "a text in quotes",
          "COMPARES": "a comparison (= != < <= > >=)", "SIGN": "+ or -", "TIMES": "* / // or %",
          "POWER": "**", "IN": "'in'", "AND": "'and'", "OR": "'or'", "NOT": "'not'", "LPAR": "'('", "RPAR": "')'",
          "COMMA": "a comma"}
#: Of these one is enough to say: what begins a value.
_VALUE = frozenset({"WORD", "NUMBER", "TEXT"})
#: What people bring from other languages, by its first characters.
_HINTS = {"&": "Write 'and'.", "|": "Write 'or'.", "!": "Write 'not'.", "^": "A power is written **.",
          "[": "An element of a list cannot be named.", "{": "Put names with special characters into `backquotes`.",
          ";": "Write several constraints as several entries of the list."}


def parse(text: str) -> Node:
    """The constraint as a tree. Raises ExpressionInvalid."""
    if len(text) > LONGEST:
        raise ExpressionInvalid(f"is longer than {LONGEST} characters", LONGEST, len(text))
    try:
        tree: Any = _parser().parse(text)
    except UnexpectedToken as unexpected:
        token: Token = unexpected.token
        expected = _words(unexpected.expected)
        if token.type == "$END":
            raise ExpressionInvalid(f"ends too early; expected: {expected}", len(text), len(text)) from None
        start = token.start_pos or 0
        raise ExpressionInvalid(f"{shown(str(token))} is not expected here; expected: {expected}", start,
                                start + len(token)) from None
    except UnexpectedCharacters as unexpected:
        start = unexpected.pos_in_stream or 0
        found = text[start]
        if found in "\"'`":
            sentence = f"the text in quotes that begins here is not closed; a second {found} is missing"
        elif found in _HINTS:
            sentence = f"{shown(found)} is not expected here. {_HINTS[found]}"
        else:
            sentence = f"{shown(found)} is not expected here; expected: {_words(unexpected.allowed or ())}"
        raise ExpressionInvalid(sentence, start, start + 1) from None
    _check(tree)
    return tree  # type: ignore[no-any-return]  # the transformer makes it of Lark's own


def _check(tree: Node) -> None:
    """Whether each part can be what its place wants. Raises ExpressionInvalid."""
    _must_be_condition(tree)
    for node in nodes_of(tree):
        match node:
            case Joined(parts=parts):
                for part in parts:
                    _must_be_condition(part)
            case Not(inner=inner):
                _must_be_condition(inner)
            case Arithmetic(first=first, rest=rest):
                for operand in (first, *(operand for _, operand in rest)):
                    _must_be_number(operand, "computed with")
            case Call(function=function, arguments=arguments):
                for argument in arguments:
                    _must_be_number(argument, f"given to {function}")
            case Comparison(operator=operator, left=left, right=right):
                for side in (left, right):
                    # a chain computes its inner sides twice: no side may be a chain itself
                    _must_be_value(side)
                    if operator not in ("=", "!="):
                        _must_be_number(side, f"compared by {operator}")
            case OneOf(left=left, values=values):
                for side in (left, *values):
                    _must_be_value(side)


def _must_be_condition(node: Node) -> None:
    if isinstance(node, Arithmetic | Call) or (isinstance(node, Literal) and not isinstance(node.value, bool)):
        raise ExpressionInvalid("is a value and no condition; compare it, such as x <= 10", node.start, node.end)


def _must_be_value(node: Node) -> None:
    if isinstance(node, Comparison | OneOf | Joined | Not):
        raise ExpressionInvalid("a condition cannot be compared; join conditions by and, or, not", node.start,
                                node.end)


def _must_be_number(node: Node, use: str) -> None:
    match node:
        case Comparison() | OneOf() | Joined() | Not():
            what = "a condition"
        case Literal(value=str()):
            what = "a text"
        case Literal(value=None | bool()):
            what = "this word"
        case _:
            return
    raise ExpressionInvalid(f"{what} cannot be {use}; only numbers can", node.start, node.end)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=_Reader())


def _words(terminals: Any) -> str:
    wanted = [] if not set(terminals) >= _VALUE else ["a value (a name, a number, a text in quotes)"]
    skipped = _VALUE if wanted else frozenset()
    wanted += [name for terminal, name in _NAMES.items() if terminal in terminals and terminal not in skipped]
    return " or ".join(filter(None, [", ".join(wanted[:-1]), *wanted[-1:]])) or "its end"


def _span(first: Node, last: Node, *inner: Node) -> tuple[int, int, int]:
    """Place and depth of what is made of these."""
    depth = 1 + max(node.depth for node in (first, last, *inner))
    if depth > DEEPEST:
        raise ExpressionInvalid(f"is nested more than {DEEPEST} deep", first.start, last.end)
    return first.start, last.end, depth


def _place(token: Token) -> tuple[int, int, int]:
    return token.start_pos or 0, token.end_pos or 0, 1


@v_args(inline=True)
class _Reader(Transformer[Token, Node]):
    """Makes the tree of what the parser finds."""

    def number(self, token: Token) -> Literal:
        value = float(token)
        if value == float("inf"):
            raise ExpressionInvalid("is too large a number", *_place(token)[:2])
        return Literal(*_place(token), value)

    def text(self, token: Token) -> Literal:
        parts = str(token[1:-1]).split("\\\\")  # a doubled backslash is one; a single one protects a quote
        return Literal(*_place(token), "\\".join(part.replace("\\", "") for part in parts))

    def word(self, token: Token) -> Literal:
        return Literal(*_place(token), {"TRUE": True, "FALSE": False, "NONE": None}[token.type])

    def path(self, *tokens: Token) -> Name:
        parts = tuple(str(token[1:-1]) if token.type == "QUOTED" else str(token) for token in tokens)
        return Name(tokens[0].start_pos or 0, tokens[-1].end_pos or 0, 1, parts)

    def call(self, name: Token, *arguments: Node) -> Call:
        function = str(name).lower()
        start, end, _ = _place(name)
        if function not in FUNCTIONS:
            raise ExpressionInvalid(f"there is no function {name}; there are {', '.join(FUNCTIONS)}", start, end)
        least, most = FUNCTIONS[function]
        if not least <= len(arguments) <= most:
            takes = "one argument" if most == 1 else f"{least} to {most} arguments"
            raise ExpressionInvalid(f"{function} takes {takes}, not {len(arguments)}", start, arguments[-1].end)
        _, end, depth = _span(arguments[0], arguments[-1], *arguments)
        return Call(start, end, depth, function, arguments)

    def power(self, base: Node, _: Token, exponent: Node) -> Arithmetic:
        return Arithmetic(*_span(base, exponent), base, (("**", exponent),))

    def sign(self, sign: Token, inner: Node) -> Node:
        zero = Literal(*_place(sign), 0.0)
        return Arithmetic(*_span(zero, inner), zero, ((str(sign), inner),))

    def chain(self, first: Node, *rest: Any) -> Node:
        if not rest:
            return first
        pairs = tuple((str(operator), operand) for operator, operand in zip(rest[::2], rest[1::2], strict=True))
        return Arithmetic(*_span(first, rest[-1], *rest[1::2]), first, pairs)

    def compared(self, first: Node, *rest: Any) -> Node:
        made: list[Node] = []
        left = first
        for operator, right in zip(rest[::2], rest[1::2], strict=True):
            made.append(Comparison(*_span(left, right), "=" if operator == "==" else str(operator), left, right))
            left = right
        return made[0] if len(made) == 1 else Joined(*_span(made[0], made[-1], *made), True, tuple(made))

    def listed(self, *values: Any) -> tuple[Node, ...]:
        return tuple(value for value in values if isinstance(value, Node))

    def one_of(self, left: Node, values: tuple[Node, ...]) -> OneOf:
        return OneOf(*_span(left, values[-1], *values), left, values)

    def none_of(self, left: Node, values: tuple[Node, ...]) -> Not:
        inner = self.one_of(left, values)
        return Not(*_span(inner, inner), inner)

    def negation(self, inner: Node) -> Node:
        return Not(*_span(inner, inner), inner)

    def both(self, *parts: Node) -> Node:
        return Joined(*_span(parts[0], parts[-1], *parts), True, parts)

    def either(self, *parts: Node) -> Node:
        return Joined(*_span(parts[0], parts[-1], *parts), False, parts)
