"""``nni.utils``: the small things that users' algorithms import from there."""

import importlib
import runpy
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import trialkeeper
from nniweb.tuning.custom_algorithms.nni.random_parameters import json2parameter, json2space

__all__ = ["ClassArgsValidator", "MetricType", "NodeType", "OptimizeMode", "convert_dict2tuple",
           "extract_scalar_history", "extract_scalar_reward", "json2parameter", "json2space", "merge_parameter",
           "split_index"]

#: That of trials. Their package is not imported, because its modules import each other under the name "nni".
merge_parameter = runpy.run_path(str(Path(trialkeeper.__file__).parent / "nni" / "utils.py"))["merge_parameter"]


class OptimizeMode(Enum):
    """Which way is better."""

    Minimize = "minimize"
    Maximize = "maximize"


class MetricType:
    """The kinds of results."""

    PERIODICAL = "PERIODICAL"
    FINAL = "FINAL"
    REQUEST_PARAMETER = "REQUEST_PARAMETER"


class NodeType:
    """The keys of search spaces and of what was chosen in them."""

    ROOT = "root"
    TYPE = "_type"
    VALUE = "_value"
    INDEX = "_index"
    NAME = "_name"


class ClassArgsValidator:
    """Base class of validators of ``classArgs``. That of an algorithm that is registered under a name is asked before
    its class is. The methods beside it make schemas of the package ``schema``, which must be installed for that.
    """

    def validate_class_args(self, **kwargs: Any) -> None:
        """Raise where the arguments cannot be used."""

    def choices(self, key: str, *args: Any) -> Any:
        """For an argument that must be one of ``args``."""
        return _checked(lambda value: value in args, f"{key} must be one of {', '.join(map(repr, args))}")

    def range(self, key: str, keyType: type, start: Any, end: Any) -> Any:
        """For an argument of this type between these bounds, which it may equal."""
        return _checked(lambda value: isinstance(value, keyType) and start <= value <= end,
                        f"{key} must be of type {keyType.__name__}, from {start} to {end}")

    def path(self, key: str) -> Any:
        """For an argument that must name a file or a folder that is there."""
        return _checked(lambda value: isinstance(value, str) and Path(value).exists(),
                        f"{key} must be the path of something that exists")


def _checked(accepts: Callable[[Any], bool], otherwise: str) -> Any:
    schema = importlib.import_module("schema")  # not ours: who uses this has it
    return schema.And(accepts, error=otherwise)


def extract_scalar_reward(value: Any, scalar_key: str = "default") -> float:
    """The number of a result: itself, or the member ``default`` of an object. Raises RuntimeError."""
    if isinstance(value, dict):
        value = value.get(scalar_key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuntimeError(f"a result must be a number, or an object whose {scalar_key!r} is a number")
    return value


def extract_scalar_history(trial_history: Iterable[Any], scalar_key: str = "default") -> list[float]:
    """The numbers of several results. Raises RuntimeError."""
    return [extract_scalar_reward(value, scalar_key) for value in trial_history]


def split_index(params: Any) -> Any:
    """The parameters without the indices of options that some algorithms keep with what they chose."""
    if not isinstance(params, dict):
        return params
    if NodeType.INDEX in params:
        return split_index(params[NodeType.VALUE])
    return {name: split_index(value) for name, value in params.items()}


def convert_dict2tuple(value: Any) -> Any:
    """Something hashable that stands for a nested group of values; other values as they are."""
    if isinstance(value, dict):
        return tuple(sorted((name, convert_dict2tuple(inner)) for name, inner in value.items()))
    return value
