"""What the parts of the MLflow tracking server have in common: documents, keys, and refusals in MLflow's words."""

from typing import Any, Dict, Sized

#: Characters of a key: of a metric, a parameter, a tag, a registered model.
LONGEST_KEY = 250

Document = Dict[str, Any]


class CallRefused(Exception):
    """``status``: of HTTP; ``code``: MLflow's word."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def invalid(message: str) -> CallRefused:
    """What was given cannot be used."""
    return CallRefused(400, "INVALID_PARAMETER_VALUE", message)


def missing(kind: str, name: Any) -> CallRefused:
    """What was named is not there."""
    return CallRefused(404, "RESOURCE_DOES_NOT_EXIST", "there is no %s %s in this trial" % (kind, name))


def refused_twice(kind: str, name: Any) -> CallRefused:
    """What was to be made is there."""
    return CallRefused(400, "RESOURCE_ALREADY_EXISTS", "there is a %s %s already" % (kind, name))


def bound(known: Sized, most: int) -> None:
    """Raises CallRefused where one more would be too many."""
    if len(known) >= most:
        raise CallRefused(400, "RESOURCE_LIMIT_EXCEEDED", "this trial has logged too much of this kind")


def key_of(item: Document) -> str:
    """The key of a metric, parameter or tag. Raises CallRefused."""
    key = item["key"]
    if not isinstance(key, str) or not key or len(key) > LONGEST_KEY:
        raise invalid("a key must be a text of 1 to %d characters" % LONGEST_KEY)
    return key
