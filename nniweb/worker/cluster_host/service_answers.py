"""What a platform's service answers, made fit for rows: of the right types, with texts that every database takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nniweb.experiments.sql.exact_text import printable
from trainingservice.limited_json import IN_NO_TEXT, places_of_bad_texts, storable_document
from trainingservice.reasons import Reason, with_texts
from trainingservice.trial_job import TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

#: Characters of a job's name; those of this server are shorter.
LONGEST_NAME = 60
#: Characters of a machine's name.
LONGEST_MACHINE = 255
#: Exit codes are below; Windows has unsigned ones of 32 bits.
LARGEST_EXIT_CODE = 2**63


class WrongAnswer(Exception):
    """The service has returned something else than its interface says: a defect of the platform's code."""


def job_detail(answer: Any) -> TrialJobDetail:
    """The detail that a service has returned, with readable texts. Raises WrongAnswer."""
    if not isinstance(answer, TrialJobDetail):
        raise WrongAnswer(f"it returned {_kind_of(answer)} instead of a TrialJobDetail")
    if not isinstance(answer.id, str) or not isinstance(answer.status, TrialJobStatus):
        raise WrongAnswer("it returned a TrialJobDetail whose id is no text or whose status is no TrialJobStatus")
    found = {"id": _text(answer.id, LONGEST_NAME), "url": _text(answer.url), "message": _text(answer.message),
             "machine": _text(answer.machine, LONGEST_MACHINE), "cause": _text(answer.cause),
             "working_directory": _text(answer.working_directory), "exit_code": _exit_code(answer.exit_code),
             "platform_state": _state(answer.platform_state)}
    changed = {name: value for name, value in found.items() if value is not getattr(answer, name)}
    return replace(answer, **changed) if changed else answer  # each look asks of each job


def job_details(answer: Any) -> list[TrialJobDetail]:
    """Those of a list of jobs. Raises WrongAnswer."""
    if not isinstance(answer, Iterable):
        raise WrongAnswer(f"it returned {_kind_of(answer)} instead of a list")
    return [job_detail(each) for each in answer]


def _text(value: Any, limit: int = 4000) -> str:
    """Of a reason the texts in its arguments, too."""
    if isinstance(value, Reason):
        return with_texts(value, lambda text: printable(text, limit))
    text = "" if value is None else str(value)
    return printable(text, limit) if len(text) > limit or IN_NO_TEXT.search(text) else text


def _state(state: Any) -> Any:
    if not state:
        return state if isinstance(state, dict) else {}
    try:
        json.dumps(state)
        return storable_document(state) if any(places_of_bad_texts(state)) else state
    except (TypeError, ValueError, RecursionError):
        raise WrongAnswer("it returned a TrialJobDetail whose platform_state is not JSON") from None


def _exit_code(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and -LARGEST_EXIT_CODE <= value < LARGEST_EXIT_CODE
    return value if is_one else None


def _kind_of(answer: Any) -> str:
    return "None" if answer is None else f"a value of the type {type(answer).__name__}"
