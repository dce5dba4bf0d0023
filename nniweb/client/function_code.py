"""A function on its way to trials: the function itself, the program that calls it, and modules that it comes from.

``cloudpickle`` takes a function of a script or of a notebook with what it uses there; one of a module is named, and the
module's file is sent. Only modules are sent that this process has imported from the folder of the script, from the
working directory or from where the function's module lies, never installed packages.
"""

from __future__ import annotations

import inspect
import json
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nniweb.client.errors import ClientError
from nniweb.client.function_trial import own_python

#: The folder in the code of an experiment in which all this lies.
FOLDER = "nniweb_run"
START = f"{FOLDER}/start.py"
_NOT_LOCAL = ("nniweb", "trainingservice", "trialkeeper", "__main__", "__mp_main__")


def write_function(function: Callable[..., Any], space: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Write what trials need into an empty folder. Returns the files by their names in the code.

    Raises ClientError where the function cannot be called with the parameters of the space, or cannot be sent.
    """
    name = getattr(function, "__qualname__", None) or type(function).__name__
    call = {"name": name, "python": own_python(), **_how_to_call(function, name, list(space))}
    pickled = _pickled(function, name)
    (folder / "function.pickle").write_bytes(pickled)
    (folder / "call.json").write_text(json.dumps(call), encoding="utf-8")
    import cloudpickle

    package = Path(str(cloudpickle.__file__)).parent
    return {**dict(_local_modules(function)),
            f"{FOLDER}/function.pickle": folder / "function.pickle", f"{FOLDER}/call.json": folder / "call.json",
            START: Path(__file__).with_name("function_trial.py"),
            **{f"{FOLDER}/cloudpickle/{file.name}": file for file in sorted(package.glob("*.py"))}}


def _how_to_call(function: Callable[..., Any], name: str, names: list[str]) -> dict[str, Any]:
    """``takes``: keywords, or one dictionary; ``names``: the keywords it has, None for any."""
    if not callable(function):
        raise ClientError(f"run() takes a function, or a command as a text, not {type(function).__name__}.")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ClientError(f"{name} is an async function, which trials do not await. Give a plain function that calls "
                          "it with asyncio.run().")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ClientError(f"The parameters of {name} are not known. Give a function that is written in Python.") \
            from None
    parameters = list(signature.parameters.values())
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        needed = [one for one in parameters if one.default is one.empty
                  and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        if len(needed) == 1 and needed[0].name not in names and needed[0] is parameters[0]:
            return {"takes": "dictionary", "names": None}
        raise ClientError(f"{name} cannot be called with the parameters of the search space ({', '.join(names)}): "
                          f"{error}. Give it a parameter of each name, or a single one that gets a dictionary.") \
            from None
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return {"takes": "keywords", "names": None if takes_any else [one.name for one in parameters]}


def _pickled(function: Callable[..., Any], name: str) -> bytes:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise ClientError("To send a function to its trials, install cloudpickle: pip install cloudpickle. A command "
                          "needs no further package.") from None
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as error:  # whatever the objects that it uses raise
        raise ClientError(f"{name} cannot be sent to its trials: {str(error)[:300] or type(error).__name__}. It uses "
                          "something of this program that exists only here, such as an open file, a connection or a "
                          "lock. Make that inside of the function.") from None


def _local_modules(function: Callable[..., Any]) -> Iterator[tuple[str, Path]]:
    """Modules of this process that are no installed package: name in the code, file."""
    roots = _local_roots(function)
    folders: dict[str, Path | None] = {}  # of thousands of modules there are hundreds; None: nothing there is local
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name.partition(".")[0] in _NOT_LOCAL:
            continue
        if os.path.islink(file):
            file = os.path.realpath(file)
        above, base = os.path.split(file)
        if above not in folders:
            folder = Path(above).resolve()
            is_local = any(folder.is_relative_to(root) for root in roots) and not _is_installed(folder)
            folders[above] = folder if is_local else None
        local = folders[above]
        if local is not None and (path := local / base).is_file():
            inner = name.replace(".", "/")
            yield (f"{inner}/__init__.py" if path.name == "__init__.py" else f"{inner}.py"), path


def _local_roots(function: Callable[..., Any]) -> list[Path]:
    roots = [Path.cwd()]
    if (script := getattr(sys.modules.get("__main__"), "__file__", None)) is not None:
        roots.append(Path(script).resolve().parent)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is not None and getattr(module, "__file__", None) and module.__name__ not in _NOT_LOCAL:
        file = Path(str(module.__file__)).resolve()
        depth = module.__name__.count(".") + (file.name == "__init__.py")
        roots.append(file.parents[depth])
    return roots


def _is_installed(folder: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(folder.parts):
        return True
    folders = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), site.getusersitepackages()}
    return any(folder.is_relative_to(Path(each).resolve()) for each in folders if each)
