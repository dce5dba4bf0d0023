"""What a program says about the shell that started it, for trials that shall find the same Python.

Standard library only: the client for other machines uses it, too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from trialkeeper import machine

#: The variables that decide which ``python3`` a shell runs. No other is ever recorded.
VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
_MACHINE = "machine"


def shell_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Those that are set (default: for this process). Relative entries of the PATH become absolute."""
    source = os.environ if environment is None else environment
    found = {name: source[name] for name in VARIABLES if source.get(name)}
    if "PATH" in found:
        found["PATH"] = os.pathsep.join(os.path.abspath(entry) for entry in found["PATH"].split(os.pathsep))
    return found


def shell_document() -> str:
    """The same as JSON text, with the machine, for a server that may be on another one."""
    return json.dumps({_MACHINE: _this_machine(), **shell_variables()})


def variables_of_document(text: str) -> dict[str, str]:
    """The variables of a document that was made on this machine; {} of another machine's. Raises ValueError."""
    try:
        document: Any = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()) \
            or not set(document) <= {_MACHINE, *VARIABLES}:
        raise ValueError(f"must be a JSON object of texts with {_MACHINE}, {', '.join(VARIABLES)}")
    if document.pop(_MACHINE, None) != _this_machine():
        return {}
    return shell_variables(document)


def _this_machine() -> str:
    """Names this machine without telling its machine-id."""
    return hashlib.sha256(f"nniweb launch on {machine.machine_id()}".encode()).hexdigest()[:32]
