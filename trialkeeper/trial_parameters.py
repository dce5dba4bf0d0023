"""A trial's parameters for scripts that do not import ``nni``: as text, flat, under names with dots.

A nested choice ``{"model": {"_name": "forest", "trees": 100}}`` is two parameters: ``model`` with the value ``forest``
and ``model.trees`` with the value 100.
"""

import json
import os
import re
from typing import Any, Dict, List

from trialkeeper.attempt_folder import write_file

#: What the names of the variables begin with, each of which holds a parameter; and the one that names the file.
VARIABLE_PREFIX, FILE_VARIABLE = "NNI_PARAM_", "NNI_PARAMETERS_FILE"
PARAMETERS_FILE = "parameters.json"
#: Bytes of all variables together. Linux has a limit for a program's arguments and environment; what is too long for
#: it is in the file alone.
MOST_BYTES = 128 * 1024
_NAME = "_name"
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9_]")
#: What Hydra takes for a text without quotes.
_PLAIN_IN_HYDRA = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_WORDS_OF_HYDRA = ("null", "true", "false", "nan", "inf")


def parameters_in(text: str) -> Dict[str, Any]:
    """Of a parameter file's text, flat; {} where it has no parameters with names."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    parameters = document.get("parameters") if isinstance(document, dict) else None
    return flat(parameters) if isinstance(parameters, dict) else {}


def flat(parameters: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Inner ones under names with dots. A list is one value."""
    found: Dict[str, Any] = {}
    for key, value in parameters.items():
        name = prefix + str(key)
        if not isinstance(value, dict):
            found[name] = value
            continue
        if _NAME in value:
            found[name] = value[_NAME]
        found.update(flat({inner: item for inner, item in value.items() if inner != _NAME}, name + "."))
    return found


def text_of(value: Any) -> str:
    """As it stands on a command line: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def as_arguments(parameters: Dict[str, Any]) -> List[str]:
    """``--name=value`` of each."""
    return ["--%s=%s" % (name, text_of(value)) for name, value in parameters.items()]


def as_overrides(parameters: Dict[str, Any]) -> List[str]:
    """``name=value`` of each, in the grammar of Hydra's overrides."""
    return ["%s=%s" % (name, _in_hydra(value)) for name, value in parameters.items()]


def _in_hydra(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN_IN_HYDRA.match(value) and value.lower() not in _WORDS_OF_HYDRA:
            return value
        # backslashes count before a quote alone; ${ would be an interpolation
        escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
        return "'%s'" % escaped.replace("${", "\\${")
    if isinstance(value, list):
        return "[%s]" % ",".join(map(_in_hydra, value))
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (_in_hydra(str(key)), _in_hydra(item)) for key, item in value.items())
    return json.dumps(value).replace("Infinity", "inf").replace("NaN", "nan")


def variable_of(name: str) -> str:
    """The variable that holds this parameter: in capitals, other signs than letters and digits as ``_``."""
    return VARIABLE_PREFIX + _NOT_IN_VARIABLES.sub("_", name.upper())


def parameter_variables(parameters: Dict[str, Any]) -> Dict[str, str]:
    """Variables with the parameters. Not those of which two would have the same name, those that no variable can hold,
    and those that are too long.
    """
    found: Dict[str, str] = {}
    twice = set()
    size = 0
    for name, value in parameters.items():
        variable, text = variable_of(name), text_of(value)
        size += len(variable) + len(text.encode("utf-8", "replace")) + 2
        if size > MOST_BYTES or not is_printable(text):
            continue
        if variable in found:
            twice.add(variable)
        found[variable] = text
    return {variable: text for variable, text in found.items() if variable not in twice}


def is_printable(text: str) -> bool:
    """Whether a program can be given it: it has no NUL, and no half of a character."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def is_of_parameters(variable: str) -> bool:
    """Whether a variable of the environment is one of those made here."""
    return variable == FILE_VARIABLE or variable.startswith(VARIABLE_PREFIX)


def write_parameters_file(folder: str, parameters: Dict[str, Any]) -> str:
    """Write them all as one JSON object, and return the file's path. Raises OSError."""
    path = os.path.join(folder, PARAMETERS_FILE)
    write_file(path, json.dumps(parameters))
    return path
