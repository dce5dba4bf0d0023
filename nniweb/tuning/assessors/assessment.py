"""Puts intermediate results in order and asks the assessor about them."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nniweb.tuning.assessors.assessor import Assessor


@dataclass
class _Curve:
    """One running trial. ``complete`` holds the judged prefix, without gaps and with a number at each place."""

    reported: dict[int, Any] = field(default_factory=dict)
    complete: list[Any] = field(default_factory=list)
    is_stopped: bool = False


class Assessment:
    """Reports may come late, twice and out of order: they are filed by sequence number (from 0), of two for one number
    the last wins, and only what has no gap before it is judged, each new length once, so that the verdict does not
    depend on how reports were bundled. A report without a number repeats the one before it (at the start: the first
    number that follows). A trial is named once as one to stop; what comes after its end is ignored. What a trial has
    of one that it continues (``inherited``) is not judged again.
    """

    def __init__(self, assessor: Assessor) -> None:
        self._assessor = assessor
        self._curves: dict[str, _Curve] = {}
        self._ended: set[str] = set()
        self._is_replayed = False

    @contextlib.contextmanager
    def replay(self) -> Iterator[None]:
        """Entered around a record that is told again. What a trial has passed before stays passed, though more trials
        have ended since: of a running one only the verdict on its present length counts.
        """
        self._is_replayed = True
        try:
            yield
        finally:
            self._is_replayed = False

    def intermediate(self, reports: Iterable[Mapping[str, Any]]) -> list[str]:
        """File ``{"trial", "sequence", "value"}`` reports, some with ``inherited``; returns the trials to stop now."""
        return [report["trial"] for report in reports if self._file(report)]

    def trial_end(self, trial: str, succeeded: bool) -> None:
        """The trial is over; a second call for it changes nothing."""
        if trial in self._ended:
            return
        self._ended.add(trial)
        curve = self._curves.pop(trial, None)
        if curve is not None:
            self._assessor.trial_end(trial, curve.complete, succeeded)

    def on_exit(self) -> None:
        self._assessor.on_exit()

    def on_error(self) -> None:
        self._assessor.on_error()

    def stopped(self) -> list[str]:
        """The trials that were named as ones to stop and have not ended yet."""
        return [trial for trial, curve in self._curves.items() if curve.is_stopped]

    def _file(self, report: Mapping[str, Any]) -> bool:
        trial, sequence = report["trial"], report["sequence"]
        if trial in self._ended:
            return False
        curve = self._curves.setdefault(trial, _Curve())
        curve.reported[sequence] = self._assessor.value_in(report)
        judged = len(curve.complete)
        curve.complete = _without_gaps(curve, sequence)
        if report.get("inherited"):
            return False
        for length in range(judged + 1, len(curve.complete) + 1):
            if self._is_replayed:
                curve.is_stopped = self._assessor.should_stop(trial, curve.complete[:length])
            elif not curve.is_stopped and self._assessor.should_stop(trial, curve.complete[:length]):
                curve.is_stopped = True
                return True
        return False


def _without_gaps(curve: _Curve, changed: int) -> list[Any]:
    complete = curve.complete
    if changed < len(complete):
        complete = complete[:changed]
    while (place := len(complete)) in curve.reported:
        value = curve.reported[place]
        if value is not None:
            complete.append(value)
        elif complete:
            complete.append(complete[-1])
        else:
            first = _first_number(curve.reported)
            if first is None:
                break
            complete.append(first)
    return complete


def _first_number(reported: Mapping[int, Any]) -> Any:
    """The first number of the gap-free start, None while there is none."""
    place = 0
    while place in reported:
        value = reported[place]
        if value is not None:
            return value
        place += 1
    return None
