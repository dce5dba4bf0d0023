"""Whether what an annotation draws can be assigned to several names at once, as in ``a, b = 1, 2``."""

from __future__ import annotations

import ast

from nniweb.annotation.parameters import NUMERIC, Wrong

#: What an annotation's name may be where several values are wanted.
_SEVERAL = ast.Tuple | ast.List


def check_unpacking(target: ast.expr, function: str, options: list[ast.expr], line: int) -> None:
    """Raises Wrong where an option is known to have no value, too few or too many for the names of the target."""
    if not isinstance(target, _SEVERAL):
        return
    if function in NUMERIC:
        raise Wrong(line, f"nni.{function} draws one number, which cannot be assigned to {ast.unparse(target)}. Write "
                          "an annotation and an assignment for each name.")
    for option in options:
        if not _fits(target, option):
            raise Wrong(line, f"the option {ast.unparse(option)} cannot be assigned to {ast.unparse(target)}. Write "
                              "options with a value for each name, or an annotation and an assignment for each name.")


def _fits(target: ast.expr, option: ast.expr) -> bool:
    """True also where it is not known before the code runs."""
    if not isinstance(target, _SEVERAL):
        return True
    match option:
        case ast.Constant(value=str() as text):
            return _has_room(target, len(text))
        case ast.Constant() | ast.Lambda():
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="nni"), attr=function)) if function in NUMERIC:
            return False
        case ast.Tuple(elts=values) | ast.List(elts=values):
            if any(isinstance(each, ast.Starred) for each in values):
                return True
            if not _has_room(target, len(values)):
                return False
            return _is_starred(target) or all(map(_fits, target.elts, values))
    return True


def _is_starred(target: ast.Tuple | ast.List) -> bool:
    return any(isinstance(each, ast.Starred) for each in target.elts)


def _has_room(target: ast.Tuple | ast.List, count: int) -> bool:
    return count >= len(target.elts) - 1 if _is_starred(target) else count == len(target.elts)
