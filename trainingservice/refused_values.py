"""Why a value of a file is refused, in sentences: what pydantic found, and texts that must have a form of their own.

Neither pydantic's messages nor regular expressions are shown to anybody.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import AfterValidator, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from trainingservice.words.shown_value import shown

#: What NNI's documentation has where a value of one's own belongs: ``{your_host}``, ``${token}``, ``<user name>``.
_PLACEHOLDER = re.compile(r"\$?\{[^{}]*\}|<[^<>]*>")
_LIMITS = {"greater_than": ("greater than", "gt"), "greater_than_equal": ("at least", "ge"),
           "less_than": ("less than", "lt"), "less_than_equal": ("at most", "le")}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list", "tuple": "a list",
          "set": "a list", "frozen_set": "a list", "dict": "a group of fields", "path": "a path",
          "model": "a group of fields", "dataclass": "a group of fields", "url": "an address such as https://host/path",
          "none": "empty"}


def matching(pattern: str, words: str) -> AfterValidator:
    """For a text field, in ``Annotated``: the whole text must match. ``words``: what it must be, after "must be"."""
    form = re.compile(pattern)

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"must be {words}, not {shown(value)}")
        return value

    return AfterValidator(check)


def placeholder_sentence(value: Any) -> str:
    """What to say of a value that nobody has filled in; "" for any other. YAML reads ``{host}`` as a group."""
    text = ""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) is None:
        text = f"{{{next(iter(value))}}}"
    elif isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()):
        text = value.strip()
    return f"is a placeholder, {text[:60]}: write your own value instead of it" if text else ""


def sentence(error: ErrorDetails, hidden: bool = False) -> str:
    """What pydantic found, for a person who has never heard of pydantic. ``hidden``: the value is a secret."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    given = "" if hidden else f", not {shown(value)}"
    if kind == "missing":
        return "is required"
    if kind == "json_invalid":  # its input is the whole text
        return "must be JSON"
    if not hidden and (placeholder := placeholder_sentence(value)):
        return placeholder
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error", "has a value that cannot be used"))
    if kind == "string_type":
        return f"must be text{given}" + ("" if isinstance(value, dict | list) else "; put it in quotes")
    if kind in ("literal_error", "enum"):
        return f"must be {options_of(error)}{given}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"must be {words} {context.get(key)}{given}"
    if kind.endswith(("too_short", "too_long")):
        is_short = kind.endswith("too_short")
        count = context.get("min_length" if is_short else "max_length")
        is_text = kind.startswith("string") or isinstance(value, str | SecretStr)  # a secret text is called too_short
        if is_text and is_short and count == 1:
            return "must not be empty"
        one, several = ("character", "characters") if is_text else ("entry", "entries")
        return f"must have at {'least' if is_short else 'most'} {count} {one if count == 1 else several}"
    if kind == "multiple_of":
        return f"must be a multiple of {context.get('multiple_of')}{given}"
    if kind == "finite_number":
        return f"must be a finite number{given}"
    if kind == "extra_forbidden":
        return "is not a known field here"
    for prefix, words in _KINDS.items():
        if kind.startswith(prefix + "_"):
            return f"must be {words}{given}"
    return f"has a form that this field does not take{given}; compare it with the field's description"


def one_of(errors: list[ErrorDetails]) -> str:
    """What a field takes that takes values of several kinds, each of which was refused; "" where that cannot be said in
    one sentence, or there is one kind only.
    """
    words: list[str] = []
    for error in errors:
        said = sentence(error, hidden=True)
        if not said.startswith("must be ") or ";" in said:
            return ""
        form = said.removeprefix("must be ")
        if error["type"] == "literal_error":
            words += form.replace(" or ", ", ").split(", ")
        else:
            words.append(f"a number that is {form}" if error["type"] in _LIMITS else form)
    words = list(dict.fromkeys(words))
    if all(error["type"] == "literal_error" for error in errors):
        return ""
    if len(words) < 2:
        return ""
    return f"must be {', '.join(words[:-1])} or {words[-1]}, not {shown(errors[0].get('input'))}"


def refusals(invalid: ValidationError) -> list[tuple[str, str]]:
    """What a model refuses: the path of each field, with dots ("" for the whole), and why."""
    return [(".".join(str(part) for part in error["loc"]), sentence(error)) for error in invalid.errors()]


def options_of(error: ErrorDetails) -> str:
    """The texts of a field that takes some only, with commas and an "or"."""
    return str(error.get("ctx", {}).get("expected", "")).replace("'", "")
