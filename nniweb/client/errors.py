"""What can go wrong between a program and a server. The text of each is a sentence for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class ClientError(Exception):
    """Something went wrong; subclasses say what."""


class TokenTrouble(ClientError):
    """There is no token, others may read it, or it would cross a network in the clear. Nothing was sent."""


class CannotReach(ClientError):
    """No answer came, or none of this product. What runs there goes on; asking again later is harmless."""


class MayBeDone(CannotReach):
    """A change was sent and no answer came: it may have been carried out or not. Look before you send it again."""


class WaitedTooLong(ClientError):
    """The time that was given is over. The experiment goes on."""


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong. ``field`` as the caller spelt it, "" where none is; ``line`` from 1, of a config."""

    field: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return f"{place}{f'{self.field}: ' if self.field else ''}{self.message}"


class Refused(ClientError):
    """The server said no. ``status``: of HTTP; ``errors``: what is wrong, at least one."""

    def __init__(self, status: int, errors: list[FieldError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.status = status
        self.errors = errors


class NotFound(Refused):
    """There is no such thing, or it is not yours to see."""


class Conflict(Refused):
    """The wish makes no sense in the present state; nothing was changed."""


def refused(status: int, document: Any) -> Refused | None:
    """The error that an answer is; None where it is no answer of this product."""
    found = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(found, list) or not found or not all(isinstance(item, dict) for item in found):
        return None
    errors = [FieldError(str(item.get("field", "")), str(item.get("message", "")), item.get("line"), item.get("column"))
              for item in found]
    return {404: NotFound, 409: Conflict}.get(status, Refused)(status, errors)
