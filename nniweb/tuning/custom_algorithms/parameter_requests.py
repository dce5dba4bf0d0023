"""Whether a class of the user's own can give a running trial further parameters (NNI's multi-phase).

A tuner is asked by ``generate_parameters(parameter_id, trial_job_id=...)``, an advisor by a REQUEST_PARAMETER metric.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nniweb.tuning.custom_algorithms.taken_arguments import taken

_ASKED, _ARGUMENT = "generate_parameters", "trial_job_id"
#: What a class has that answers for itself.
_ADVISOR = "handle_request_trial_jobs"
#: Bytes of a module that are read before its process loads it.
_MOST_BYTES = 1_000_000


def one_set_only(name: str) -> str:
    """The sentence for a tuner that cannot."""
    return (f"{name} gives a trial one parameter set, and multiPhase asks for more: its method generate_parameters "
            f"must take the argument {_ARGUMENT}, by name or as **kwargs")


def takes_trial_job_id(found: Any) -> bool:
    """Of a class that was loaded. An advisor answers for itself."""
    if callable(getattr(found, _ADVISOR, None)):
        return True
    method = getattr(found, _ASKED, None)
    if method is None or getattr(method, "__module__", "").startswith("nniweb."):  # the base class's, which raises
        return False
    return _ARGUMENT in taken(method, {_ARGUMENT: None})


def gives_one_set_only(folder: Path, class_name: str) -> bool:
    """Whether the module's text shows that the class cannot, without running it. False where it does not show it."""
    *modules, name = class_name.split(".")
    path = folder.joinpath(*modules)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    try:
        with file.open("rb") as stream:
            tree = ast.parse(stream.read(_MOST_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # its process says so
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    method = _method(classes, name, set())
    return method is not None and not _takes(method)


def _method(classes: Mapping[str, ast.ClassDef], name: str, seen: set[str]) -> ast.FunctionDef | None:
    """The method that is asked, of the class or of those of the module that it is derived from; None: not shown."""
    found = classes.get(name)
    if found is None or name in seen:
        return None
    methods = {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}
    if _ADVISOR in methods:
        return None
    if _ASKED in methods:
        return methods[_ASKED]
    bases = [base.id for base in found.bases if isinstance(base, ast.Name)]
    return next((method for base in bases if (method := _method(classes, base, {*seen, name})) is not None), None)


def _takes(method: ast.FunctionDef) -> bool:
    if method.decorator_list:
        return True  # what it takes is not written here
    arguments = method.args
    return arguments.kwarg is not None or any(one.arg == _ARGUMENT for one in (*arguments.args, *arguments.kwonlyargs))
