"""From the JSON a person wrote to a ``SearchSpace``, or to sentences about everything that is wrong with it."""

import json
import math
from collections.abc import Mapping
from typing import Any

from nniweb.tuning.search_space.problem import MOST_PROBLEMS, InvalidInput, Problem, did_you_mean
from nniweb.tuning.search_space.space import (
    NAME_KEY,
    Choice,
    NestedChoice,
    NestedOption,
    Numeric,
    Parameter,
    RandInt,
    SearchSpace,
)
from trainingservice.words.shown_value import shown

BOUNDED_TYPES = ("uniform", "quniform", "loguniform", "qloguniform")
NORMAL_TYPES = ("normal", "qnormal", "lognormal", "qlognormal")
ALL_TYPES = ("choice", "randint", *BOUNDED_TYPES, *NORMAL_TYPES)
_ARCHITECTURE_TYPES = ("layer_choice", "input_choice", "mutable_layer")

MOST_NESTED_LEVELS = 20
#: Characters of a parameter's name.
LONGEST_NAME = 1000
# exp(709.8) is the largest number a float holds; draws reach 8.3 standard deviations from mu.
_LARGEST_EXPONENT = 709.0
_DEVIATIONS_DRAWN = 8.3
# Beyond this many multiples of q a float no longer tells one multiple from the next. Of a bounded type that is a slip;
# the few large draws of a normal one are left as they are.
_MOST_MULTIPLES = 2.0**52
_LARGEST_INTEGER = 2**53


class SearchSpaceError(InvalidInput):
    """A search space cannot be used; ``problems`` has a path such as ``lr._value[1]`` and a sentence for each fault."""


def parse_search_space(raw: object) -> SearchSpace:
    """Read an NNI search space. Numbers may be given as text (YAML reads ``1e-4`` as text). Raises SearchSpaceError."""
    parser = _Parser()
    space = parser.space(raw, "", 0)
    if not parser.problems and not space.parameters:
        parser.wrong("", 'the search space is empty; give at least one parameter, such as {"lr": {"_type": '
                         '"loguniform", "_value": [0.0001, 0.1]}}')  # fmt: skip
    if parser.problems:
        raise SearchSpaceError(parser.problems)
    return space


class _Parser:
    """Collects problems instead of stopping at the first; what it returns beside a problem is a filler. Whatever finds
    the last of MOST_PROBLEMS raises SearchSpaceError.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))
        if len(self.problems) >= MOST_PROBLEMS:
            raise SearchSpaceError(self.problems)

    def space(self, raw: object, prefix: str, level: int) -> SearchSpace:
        if not isinstance(raw, Mapping):
            self.wrong(
                prefix.rstrip("."), f"must be an object of parameter names and their descriptions, not {kind_of(raw)}"
            )
            return SearchSpace({})
        parameters: dict[str, Parameter] = {}
        for name, spec in raw.items():
            if level and name == NAME_KEY:
                continue
            if not isinstance(name, str):
                self.wrong(f"{prefix}{name}", f"a parameter's name must be text, not {kind_of(name)}")
                continue
            if len(name) > LONGEST_NAME:
                self.wrong(f"{prefix}{name[:50]}", f"a parameter's name has {len(name)} characters; at most "
                                                   f"{LONGEST_NAME} are allowed")
                continue
            parameter = self.parameter(spec, f"{prefix}{name}", level)
            if parameter is not None:
                parameters[name] = parameter
        return SearchSpace(parameters)

    def parameter(self, spec: object, path: str, level: int) -> Parameter | None:
        if not isinstance(spec, Mapping):
            self.wrong(path, f'must be an object with "_type" and "_value", not {kind_of(spec)}')
            return None
        missing = [key for key in ("_type", "_value") if key not in spec]
        for key in missing:
            slips = [other for other in spec if isinstance(other, str) and did_you_mean(other, [key])]
            hint = f' (is "{slips[0]}" a slip for it?)' if slips and slips[0] not in ("_type", "_value") else ""
            self.wrong(path, f'has no "{key}"{hint}')
        if missing:
            return None
        type_name = spec["_type"]
        if type_name not in ALL_TYPES or not isinstance(type_name, str):
            self.wrong(f"{path}._type", _unknown_type(type_name))
            return None
        values = spec["_value"]
        if not isinstance(values, list | tuple):
            self.wrong(f"{path}._value", f"must be a list, not {kind_of(values)}")
            return None
        if type_name == "choice":
            return self.choice(list(values), path, level)
        if type_name == "randint":
            return self.randint(values, path)
        return self.numeric(type_name, values, path)

    def choice(self, options: list[Any], path: str, level: int) -> Parameter | None:
        where = f"{path}._value"
        if not options:
            self.wrong(where, "the list of options is empty; give at least one option")
            return None
        named = [isinstance(option, Mapping) and NAME_KEY in option for option in options]
        if not any(named):
            for index, option in enumerate(options):
                fault = json_fault(option)
                if fault:
                    self.wrong(f"{where}[{index}]", fault)
            return Choice(tuple(options))
        if not all(named):
            for index, is_named in enumerate(named):
                if not is_named:
                    self.wrong(
                        f"{where}[{index}]",
                        'has no "_name" while other options of this choice have one: either all options are objects '
                        'with "_name" (a nested choice) or none is',
                    )
            return None
        if level >= MOST_NESTED_LEVELS:
            self.wrong(where, f"choices are nested more than {MOST_NESTED_LEVELS} levels deep")
            return None
        nested = []
        for index, option in enumerate(options):
            fault = json_fault(option[NAME_KEY])
            if fault:
                self.wrong(f"{where}[{index}].{NAME_KEY}", fault)
            nested.append(NestedOption(option[NAME_KEY], self.space(option, f"{where}[{index}].", level + 1)))
        return NestedChoice(tuple(nested))

    def randint(self, values: list[Any] | tuple[Any, ...], path: str) -> Parameter | None:
        bounds = self.numbers(values, 2, "the lower bound and the upper bound (which is never sampled itself)", path)
        if bounds is None:
            return None
        # NNI 3.0 takes bounds that are not whole and rounds both up.
        low, high = math.ceil(bounds[0]), math.ceil(bounds[1])
        for index, bound in enumerate((low, high)):
            if abs(bound) > _LARGEST_INTEGER:
                self.wrong(f"{path}._value[{index}]", "is too large; whole numbers up to 2^53 can be sampled")
                return None
        if low >= high:
            self.wrong(f"{path}._value[1]", f"the upper bound {high} must be greater than the lower bound {low}, "
                                            "because the upper bound itself is never sampled")  # fmt: skip
            return None
        return RandInt(low, high)

    def numeric(self, type_name: str, values: list[Any] | tuple[Any, ...], path: str) -> Parameter | None:
        is_normal, is_log, has_q = type_name in NORMAL_TYPES, "log" in type_name, type_name.startswith("q")
        meaning = "mu and sigma" if is_normal else "the low and the high bound"
        numbers = self.numbers(values, 3 if has_q else 2, f"{meaning}{' and the step q' if has_q else ''}", path)
        if numbers is None:
            return None
        before = len(self.problems)
        check = self.normal_range if is_normal else self.bounded_range
        largest = check(numbers[0], numbers[1], is_log, f"{path}._value")
        q = numbers[2] if has_q else None
        if q is not None and q <= 0:
            self.wrong(f"{path}._value[2]", f"the step q must be greater than 0, not {q:g}")
        elif q is not None and len(self.problems) == before and (
                not math.isfinite(largest / q) if is_normal else largest / q > _MOST_MULTIPLES):
            self.wrong(f"{path}._value[2]", f"the step q = {q:g} is too small compared with values as large as "
                                            f"{largest:g}")
        if len(self.problems) > before:
            return None
        return Numeric(numbers[0], numbers[1], q, is_normal, is_log)

    def bounded_range(self, low: float, high: float, is_log: bool, where: str) -> float:
        """Check low and high; returns the largest magnitude that can be drawn."""
        if is_log and low <= 0:
            self.wrong(f"{where}[0]", f"the low bound of a logarithmic type must be greater than 0, not {low:g}")
        if low > high:  # equal ones leave one value, as in NNI
            self.wrong(f"{where}[1]", f"the high bound {high:g} must be at least the low bound {low:g}")
        elif not math.isfinite(high - low):
            self.wrong(f"{where}[1]", f"the range from {low:g} to {high:g} is wider than a number can express")
        return max(abs(low), abs(high))

    def normal_range(self, mu: float, sigma: float, is_log: bool, where: str) -> float:
        """Check mu and sigma; returns the largest magnitude that can be drawn."""
        reach = abs(mu) + _DEVIATIONS_DRAWN * sigma
        if sigma <= 0:
            self.wrong(f"{where}[1]", f"the standard deviation sigma must be greater than 0, not {sigma:g}")
        elif is_log and mu + _DEVIATIONS_DRAWN * sigma > _LARGEST_EXPONENT:
            self.wrong(where, "samples would overflow: mu and sigma are those of the logarithm, so the median is "
                              f"exp({mu:g})")  # fmt: skip
        elif not math.isfinite(reach):
            self.wrong(where, "samples would be larger than a number can express")
        else:
            return math.exp(mu + _DEVIATIONS_DRAWN * sigma) if is_log else reach
        return 0.0

    def numbers(self, values: list[Any] | tuple[Any, ...], count: int, meaning: str, path: str) -> list[float] | None:
        if len(values) != count:
            self.wrong(f"{path}._value", f"must have {count} numbers, {meaning}, but has {len(values)}")
            return None
        numbers = [_number(value) for value in values]
        for index, number in enumerate(numbers):
            if number is None:
                self.wrong(f"{path}._value[{index}]", f"must be a finite number, not {kind_of(values[index])}")
        found = [number for number in numbers if number is not None]
        return found if len(found) == count else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def json_fault(option: object) -> str | None:
    """Why an option cannot travel to a trial, None when it can."""
    try:
        text = json.dumps(option, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return "must be a JSON value without NaN or Infinity"
    return None if json.loads(text) == option else "must be a JSON value: its object keys must be text"


def _unknown_type(type_name: object) -> str:
    known = ", ".join(ALL_TYPES)
    if not isinstance(type_name, str):
        return f"must be the name of a type ({known}), not {kind_of(type_name)}"
    if type_name in _ARCHITECTURE_TYPES:
        return f'"{type_name}" belongs to NNI\'s architecture search, which is not supported; known types: {known}'
    return f'"{type_name}" is not a type.{did_you_mean(type_name, ALL_TYPES)} Known types: {known}'


def kind_of(value: object) -> str:
    """A value in words, for messages: ``a list``, ``"text"``; long ones are cut."""
    if value is None:
        return "nothing (null)"
    return "an object" if isinstance(value, Mapping) else shown(value)
