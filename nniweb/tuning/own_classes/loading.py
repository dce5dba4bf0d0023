"""Loads a class that a user wrote, and says in a sentence why that fails."""

import importlib
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nniweb.tuning.own_classes import nni as base_classes
from nniweb.tuning.problem import InvalidInput, Problem


def make_own(kind: str, document: Mapping[str, Any], method: str, seed: int) -> Any:
    """An object of the class ``class_name`` (module.Class) in ``code_directory``, made with ``class_args``.

    It must have ``method``. The global random generators are seeded first, so that an algorithm that uses them can be
    rebuilt. To be called in a process of its own: it changes ``sys.path``, and the class may do anything. Raises
    InvalidInput, and what the class raises.
    """
    # so that users' modules find "nni" in our base classes, whatever else is installed
    for name in ("", ".tuner", ".assessor", ".recoverable", ".utils"):
        sys.modules[f"nni{name}"] = importlib.import_module(base_classes.__name__ + name)
    folder, name = document.get("code_directory"), str(document["class_name"])
    if folder and folder not in sys.path:
        sys.path.insert(0, str(folder))
    module_name, _, class_name = name.rpartition(".")
    try:
        made = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        raise _wrong(_why_not_found(error, module_name, folder)) from error
    if made is None:
        raise _wrong(f"the module {module_name} has no class {class_name}")
    if not callable(getattr(made, method, None)):
        raise _wrong(f"{name} is no {kind}: it has no method {method}. Derive it from nni.{kind}.{kind.capitalize()}; "
                     "an advisor of NNI (a subclass of MsgDispatcherBase) must be written as a tuner and an assessor")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return made(**document.get("class_args") or {})


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Problem("className", message)])


def _why_not_found(error: ModuleNotFoundError, module_name: str, folder: str | None) -> str:
    missing = error.name or ""
    if missing == module_name.split(".")[0]:
        where = f"{Path(folder)}" if folder else "the server's Python"
        return f"there is no module {module_name} in {where}"
    if missing.split(".")[0] == "nni":
        return (f"{module_name} imports {missing}, of which there is only a part here: nni.tuner, nni.assessor and "
                "nni.utils. Take what it needs into its own code")
    return (f"{module_name} imports {missing}, which is not installed on the server; install it into the server's "
            "Python environment")
