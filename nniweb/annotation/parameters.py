"""What the annotations of code come to: parameters, their names in the search space and in the code."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainingservice.limited_json import IN_NO_TEXT, WHY
from trainingservice.limited_yaml import LARGEST_NUMBER

#: Functions of NNI's that draw a number, with the numbers that they are given.
NUMERIC = ("randint", "uniform", "quniform", "loguniform", "qloguniform", "normal", "qnormal", "lognormal",
           "qlognormal")
#: All that stand for a parameter.
FUNCTIONS = ("choice", "function_choice", *NUMERIC)
MOST_OPTIONS = 10_000
LONGEST_KEY = 500


class Wrong(Exception):
    """An annotation cannot be used; the sentence is for its author."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass
class Parameters:
    """The parameters of one module. ``space`` is in NNI's form; ``lines`` has the line of each."""

    module: str
    space: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def declare(self, function: str, name: str | None, values: Sequence[Any], line: int) -> str:
        """The parameter's name in the search space: NNI's, from the module, the name in the code and the function.
        Raises Wrong.
        """
        key = f"{self.module}/{f'__line{line}' if name is None else name}/{function}"
        if len(key) > LONGEST_KEY:
            raise Wrong(line, f"the parameter's name has {len(key)} characters; at most {LONGEST_KEY} are allowed. "
                              "Choose a shorter name.")
        if IN_NO_TEXT.search(key):
            raise Wrong(line, f"the name {name!r} {WHY}. Choose another name.")
        parameter = {"_type": "choice" if function == "function_choice" else function, "_value": list(values)}
        before = self.space.get(key)
        if before is not None and name is None:
            raise Wrong(line, f"nni.{function} occurs twice in this line without a name, so that the two cannot be "
                              "distinguished. Write them on two lines, or give each a name.")
        if before is not None and not _same(before, parameter):
            raise Wrong(line, f"{name} was annotated with other values in line {self.lines[key]}. Write the same "
                              "values, or give one of them another name.")
        self.space.setdefault(key, parameter)
        self.lines.setdefault(key, line)
        return key


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return repr(one) == repr(other)


def name_of(node: ast.expr) -> str:
    """How an expression is called in the search space: as NNI calls it, on one line."""
    text = ast.unparse(_NumberKeys().visit(copy.deepcopy(node)))
    is_formula = isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda)
    return f"({text})" if is_formula else text


class _NumberKeys(ast.NodeTransformer):
    """NNI writes ``{(1): 2}``."""

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        keys = [ast.Name(f"({ast.unparse(key)})") if isinstance(key, ast.Constant)
                and isinstance(key.value, int | float) and not isinstance(key.value, bool) else key
                for key in node.keys]
        return ast.Dict(keys, [self.visit(value) for value in node.values])


def option_of(node: ast.expr, line: int) -> Any:
    """What stands for an option in the search space: a literal itself, else its text. Raises Wrong."""
    if isinstance(node, ast.Starred):
        raise Wrong(line, f"the options behind {ast.unparse(node)} are not known before the code runs. Write them out.")
    if not isinstance(node, ast.Constant):
        return name_of(node)
    return plain_value(node.value, line)


def plain_value(value: Any, line: int) -> Any:
    """A literal as the search space can hold it. Raises Wrong."""
    if isinstance(value, str) and IN_NO_TEXT.search(value):
        raise Wrong(line, f"the option {value!r} {WHY}. Write another text, or an expression such as chr(0).")
    if isinstance(value, int) and abs(value) >= LARGEST_NUMBER:
        raise Wrong(line, "an option is a number of too many digits. Write a smaller number, or a text.")
    if value is None or isinstance(value, str | bool | int) or isinstance(value, float) and math.isfinite(value):
        return value
    raise Wrong(line, f"the option {value!r} cannot be stored as JSON. Write a number, a text, true or false, or an "
                      "expression.")


def check_options(options: Sequence[Any], line: int) -> None:
    """Raises Wrong where options are too many, or two cannot be told apart."""
    if not options:
        raise Wrong(line, "there are no options to choose from; give at least one.")
    if len(options) > MOST_OPTIONS:
        raise Wrong(line, f"there are {len(options)} options; at most {MOST_OPTIONS} are possible.")
    seen: dict[Any, Any] = {}
    for option in options:
        other = seen.setdefault(option, option)
        if type(other) is not type(option):
            raise Wrong(line, f"the options {other!r} and {option!r} are equal in Python, so that they cannot be "
                              "distinguished. Leave one of them out.")


def numbers_of(arguments: Sequence[ast.expr], function: str, line: int) -> list[Any]:
    """The numbers in a call such as ``nni.uniform(0, 1)``. Raises Wrong."""
    numbers = []
    for node in arguments:
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
        is_number = isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value))
        if not is_number or isinstance(value, bool):
            raise Wrong(line, f"nni.{function} has {ast.unparse(node)} where a number such as 0.1 is required, because "
                              "the search space is made before the code runs.")
        numbers.append(value)
    return numbers
