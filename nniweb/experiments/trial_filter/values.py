"""What stands behind a comparison: numbers, durations, times, words. Each raises FilterInvalid naming the place."""

import math
from datetime import UTC, date, datetime, time, timedelta

from nniweb.experiments.config.fields.walk import nearest
from nniweb.experiments.trial_filter.language import FilterInvalid, Path, Term
from trainingservice.words.durations import parse_duration
from trainingservice.words.shown_value import shown

#: Written without quotes: no value.
NONE = "none"


def is_none(term: Term) -> bool:
    return not term.is_quoted and term.text.lower() == NONE


def number(term: Term) -> float | None:
    """The finite number it is, None where it is something else."""
    if term.is_quoted:
        return None
    try:
        found = float(term.text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def number_for(path: Path, term: Term) -> float:
    """The term as a number. Raises FilterInvalid."""
    found = number(term)
    if found is None:
        raise FilterInvalid(f"{path} is compared with a number, but {shown(term.text)} is not a "
                            "number.", term.start, term.end)
    return found


def whole_number_for(path: Path, term: Term) -> int:
    """The term as a whole number. Raises FilterInvalid."""
    found = number_for(path, term)
    if found != int(found) or abs(found) > 2**53:
        raise FilterInvalid(f"{path} is a whole number, but {shown(term.text)} is not.", term.start, term.end)
    return int(found)


def seconds_for(path: Path, term: Term) -> float:
    """A duration: plain seconds, or with units."""
    found = number(term)
    if found is not None:
        return found
    try:
        return float(parse_duration(term.text))
    except ValueError as error:
        raise FilterInvalid(f"{path} is compared with a duration: {shown(term.text)} {error}. A number without a "
                            "unit means "
                            "seconds.",
                            term.start, term.end) from None


def times_for(path: Path, term: Term, now: datetime) -> tuple[datetime, datetime]:
    """A time, first and last moment: a day is as long as it is. Without an offset it is UTC."""
    try:
        if term.is_ago:
            at = now - timedelta(seconds=parse_duration(term.text))
            return at, at
        at = datetime.fromisoformat(term.text)
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        return at, datetime.combine(at, time.max, UTC) if _is_day(term.text) else at
    except (ValueError, OverflowError):
        raise FilterInvalid(
            f"{path} is compared with a time such as 2026-01-31, 2026-01-31T18:30 (UTC), 2026-01-31T18:30+02:00 or 2h "
            f"ago, but {shown(term.text)} is not a time.", term.start, term.end) from None


def _is_day(text: str) -> bool:
    """Whether a time is written without an hour."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def choice_for(path: Path, term: Term, choices: list[str]) -> str:
    """One of these words, however it is capitalised."""
    for choice in choices:
        if choice.lower() == term.text.lower():
            return choice
    raise FilterInvalid(f"{path} is never {shown(term.text)}{nearest(term.text, choices)} Possible values: "
                        f"{', '.join(choices)}.",
                        term.start, term.end)
