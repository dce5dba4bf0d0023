"""Loads a class that a user wrote, and says in a sentence why that fails."""

import functools
import importlib
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nniweb.tuning.custom_algorithms import nni as base_classes
from nniweb.tuning.custom_algorithms.official_package import complete
from nniweb.tuning.search_space.problem import InvalidInput, Problem

#: What NNI's releases call its modules -> the module here, "" for the package itself.
_NAMES = {
    "nni": "", "nni.tuner": "tuner", "nni.assessor": "assessor", "nni.recoverable": "recoverable",
    "nni.utils": "utils", "nni.parameter_expressions": "parameter_expressions",
    "nni.common": "common", "nni.common.serializer": "common", "nni.common.hpo_utils": "hpo_utils",
    "nni.common.hpo_utils.formatting": "formatted_space", "nni.common.hpo_utils.dedup": "deduplicator",
    "nni.common.hpo_utils.optimize_mode": "utils", "nni.common.hpo_utils.validation": "hpo_utils",
    "nni.typehint": "typehint",
    "nni.msg_dispatcher_base": "msg_dispatcher_base", "nni.protocol": "protocol",
    "nni.runtime": "msg_dispatcher_base", "nni.runtime.common": "common",
    "nni.runtime.msg_dispatcher_base": "msg_dispatcher_base", "nni.runtime.protocol": "protocol",
    "nni.runtime.tuner_command_channel": "protocol",
}


def load_tuner(document: Mapping[str, Any]) -> Any:
    """The class of a tuner or an advisor: as ``load_own``."""
    return load_own("tuner", document, ["generate_parameters", "handle_request_trial_jobs"])


def load_assessor(document: Mapping[str, Any]) -> Any:
    """The class of an assessor: as ``load_own``."""
    return load_own("assessor", document, ["assess_trial"])


def load_own(kind: str, document: Mapping[str, Any], methods: Sequence[str]) -> Any:
    """The class ``class_name`` (module.Class) in ``code_directory``. It must have one of ``methods``.

    To be called in a process of its own: it changes ``sys.path``. Raises InvalidInput, and what the module raises.
    """
    _name_modules()
    folder, name = document.get("code_directory"), str(document["class_name"])
    if folder and folder not in sys.path:
        sys.path.insert(0, str(folder))
    found = _load(name, folder)
    if not any(callable(getattr(found, method, None)) for method in methods):
        article = "a" if kind == "tuner" else "an"
        raise _wrong(f"{name} is not {article} {kind}: it has no method {methods[0]}. Derive it from "
                     f"nni.{kind}.{kind.capitalize()}")
    return found


def make_own(found: Any, document: Mapping[str, Any], seed: int) -> Any:
    """An object of a loaded class, made with ``class_args``. The global random generators are seeded first, so that an
    algorithm that uses them can be rebuilt. Raises what the class raises, and InvalidInput where the validator that it
    is registered with refuses the arguments.
    """
    class_args = document.get("class_args") or {}
    if (validator := load_validator(document)) is not None:
        try:
            validator().validate_class_args(**class_args)
        except Exception as error:
            raise InvalidInput([Problem("classArgs", str(error) or type(error).__name__)]) from error
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return found(**class_args)


def load_validator(document: Mapping[str, Any]) -> Any:
    """The class that checks ``class_args``, None where there is none. To be called after the algorithm's own class was
    loaded. Raises InvalidInput, and what the module raises.
    """
    name = document.get("validator")
    return None if name is None else _load(str(name), document.get("code_directory"))


def _load(name: str, folder: str | None) -> Any:
    module_name, _, class_name = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        raise _wrong(_why_not_found(error, module_name, folder)) from error
    if found is None:
        raise _wrong(f"the module {module_name} has no class {class_name}")
    return found


def call_if_there(own: Any, method: str) -> None:
    """Call a method that NNI's base classes have and a class that is not derived from them may lack."""
    if callable(found := getattr(own, method, None)):
        found()


@functools.cache
def _name_modules() -> None:
    """So that users' modules find "nni" in our base classes, and behind them in the official package, if installed."""
    for name, here in _NAMES.items():
        module = importlib.import_module(f"{base_classes.__name__}.{here}" if here else base_classes.__name__)
        sys.modules[name] = module
        complete(module, name)
        parent, _, child = name.rpartition(".")
        if parent and not hasattr(sys.modules[parent], child):  # for "import nni.runtime.protocol"
            setattr(sys.modules[parent], child, module)


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Problem("className", message)])


def _why_not_found(error: ModuleNotFoundError, module_name: str, folder: str | None) -> str:
    missing = error.name or ""
    if missing == module_name.split(".")[0]:
        if folder:
            return f"there is no module {module_name} in {Path(folder)}"
        return (f"there is no module {module_name} in the server's Python. Install the package that it is in into the "
                "Python environment of the server (of each worker), or name its folder as codeDirectory")
    if missing.split(".")[0] == "nni":
        return (f"{module_name} imports {missing}, of which there is only a part here: "
                f"{', '.join(_NAMES)}. Install the official nni package into the server's Python environment, or "
                "take what it needs into its own code")
    return (f"{module_name} imports {missing}, which is not installed on the server; install it into the server's "
            "Python environment")
