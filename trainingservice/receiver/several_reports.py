"""Reads signs of life of several keepers, which one sender brings in one request.

Who reads journals for keepers, or passes on what a machine's agent took from them, would else send a request for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from trainingservice.receiver.report_reading import RefusedReport, parse_body
from trialkeeper import contract

#: Longest job name and token that are read, in characters.
_MOST_NAME, _MOST_TOKEN = 255, 255


@dataclass(frozen=True)
class SignOfLife:
    """A report without entries. ``report``: as ``read_report`` takes it, which checks it; ``token`` opens its job."""

    job_name: str
    token: str
    report: Mapping[str, Any]


def read_several(body: bytes, content_encoding: str = "", *,
                 loads: Callable[[bytes], Any] = json.loads) -> list[SignOfLife]:
    """All of a request, in its order. Raises RefusedReport (400, 413), then none of them was read."""
    document = parse_body(body, content_encoding, loads)
    reports = document.get("reports") if isinstance(document, Mapping) else None
    if not isinstance(reports, list) or not 0 < len(reports) <= contract.MOST_SEVERAL_REPORTS:
        raise _unreadable(f"reports is not a list of 1 to {contract.MOST_SEVERAL_REPORTS} reports")
    return [_read(raw) for raw in reports]


def _read(raw: Any) -> SignOfLife:
    if not isinstance(raw, Mapping):
        raise _unreadable("one of reports is not a JSON object")
    job_name, token = raw.get("job_name"), raw.get("token")
    if not _is_plain(job_name, _MOST_NAME):
        raise _unreadable(f"job_name must be a text of at most {_MOST_NAME} printable characters of ASCII")
    if not _is_plain(token, _MOST_TOKEN):
        raise _unreadable(f"token must be a text of at most {_MOST_TOKEN} printable characters of ASCII")
    if raw.get("entries"):
        raise _unreadable("entries come in a report of their own, not with those of others")
    return SignOfLife(job_name, token, {name: raw.get(name) for name in ("keeper", "sent_at", "resources")})


def _is_plain(value: Any, longest: int) -> TypeGuard[str]:
    """Whether it is a text as names of jobs and tokens are: the database can be asked for it."""
    return isinstance(value, str) and len(value) <= longest and value.isascii() and value.isprintable()


def _unreadable(message: str) -> RefusedReport:
    return RefusedReport(400, contract.ERROR_UNREADABLE, message)
