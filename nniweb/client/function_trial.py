"""Runs in a trial: calls the function that ``nniweb.client.run`` has sent, and reports what it gives.

It is sent beside the function (``function_code``), so it imports nothing of this product but ``nni``.
"""

import inspect
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
_NOTHING = object()


def own_python() -> str:
    """The version that must be the same on both sides, such as 3.11."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def main() -> None:
    """Ends with SystemExit, and a sentence, where the function cannot be called or gives nothing."""
    sys.path.insert(1, os.path.dirname(HERE))  # modules that were sent; cloudpickle lies beside this file
    with open(os.path.join(HERE, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    own, sent = own_python(), call["python"]
    if own != sent:
        sys.exit(f"The function was sent by Python {sent}, and this trial runs with Python {own}, which cannot read "
                 "it. Give run(..., python=...) a command that starts the same version on the trial's machine, or give "
                 "a command that runs a script instead of a function.")
    with open(os.path.join(HERE, "function.pickle"), "rb") as file:
        function = pickle.load(file)
    import nni

    result = _called(function, call, nni.get_next_parameter())
    if inspect.isgenerator(result):
        result = _last_of(result, nni.report_intermediate_result)
    if result is None or result is _NOTHING:
        sys.exit(f"{call['name']} returned no result. Return a number, or a dictionary with the number under the key "
                 "\"default\".")
    result = _as_plain(result)
    if not isinstance(result, (int, float, Mapping)):
        sys.exit(f"{call['name']} returned no number, but a value of type {type(result).__name__}. Return a number, or "
                 "a dictionary with the number under the key \"default\".")
    nni.report_final_result(result)


def _as_plain(value: Any) -> Any:
    """The numbers of a result, also those that a library for arrays has wrapped, such as tensors of one element."""
    if isinstance(value, Mapping):
        return {name: _as_plain(each) for name, each in value.items()}
    if callable(unwrap := getattr(value, "item", None)):
        try:
            return unwrap()
        except (TypeError, ValueError, RuntimeError):  # it has several elements
            return value
    return value


def _called(function: Callable[..., Any], call: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    if call["takes"] == "dictionary":
        return function(parameters)
    # tuners that decide how long a trial is add a parameter of their own
    return function(**{name: value for name, value in parameters.items()
                       if call["names"] is None or name in call["names"]})


def _last_of(generator: Iterator[Any], report: Callable[[Any], Any]) -> Any:
    """Report each value; the result is what the generator returns, else the last value."""
    last = _NOTHING
    while True:
        try:
            last = next(generator)
        except StopIteration as end:
            return last if end.value is None else end.value
        report(_as_plain(last))


if __name__ == "__main__":
    main()
