"""How reasons are kept in rows: the sentence in ``message``, its code in ``reason``, and ``reason_arguments``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nniweb.experiments.failure_key import failure_key
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.sql.exact_text import printable
from trainingservice.reasons import CODES, OTHER, PLATFORM, Reason, arguments_of, code_of, each_text, with_texts


def said(message: str, whose: str = OTHER) -> dict[str, Any]:
    """Columns of a trial or an experiment that is to say this. ``whose`` is the code of plain text."""
    return {"message": printable(message), "reason": code_of(message, whose),
            "reason_arguments": each_text(arguments_of(message), printable)}


def said_by_platform(message: str) -> dict[str, Any]:
    """As ``said``, of what a platform says: plain text is its own words."""
    return said(message, PLATFORM)


def failed_because(message: str) -> dict[str, Any]:
    """As ``said``, of a trial that failed."""
    columns = said(message)
    return {**columns, "failure": failure_key(columns["message"], columns["reason"], columns["reason_arguments"])}


def read(message: str, code: str, arguments: dict[str, Any]) -> str:
    """What was kept in these columns, with its code where it is one that this version knows."""
    if code not in CODES:
        return message
    try:
        return Reason(code, **arguments)
    except (KeyError, TypeError):  # written by a version whose code, or a code in its arguments, is another
        return message


def from_document(message: str, document: Mapping[str, Any]) -> str:
    """As ``read``, of a reason that was kept as ``as_document`` makes it."""
    return read(message, document.get("code", ""), {key: value for key, value in document.items() if key != "code"})


def reason_of(row: Trial | Experiment) -> str:
    """As ``read``, of a row whose three columns were read."""
    return read(row.message, row.reason, row.reason_arguments)


def document(code: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """What REST says of a reason: its code, and its arguments beside it; None where there is none."""
    return {"code": code, **arguments} if code else None


def struck_reason(message: str) -> str:
    """The message without the secrets of the work that is done now, also in the arguments of a reason."""
    return with_texts(message, struck_out)
