"""A user's assessor behind our interface."""

from collections.abc import Mapping
from typing import Any

from nniweb.tuning.assessor import Assessor
from nniweb.tuning.own_classes.loading import load_own, make_own


class OwnAssessor(Assessor):
    """Calls the methods of NNI's ``Assessor``; results are numbers (of an object its ``default``)."""

    def __init__(self, document: Mapping[str, Any], seed: int) -> None:
        self._own = make_own(load_own("assessor", document, ["assess_trial"]), document, seed)

    def should_stop(self, trial: str, values: list[float]) -> bool:
        verdict = self._own.assess_trial(trial, list(values))
        if not isinstance(getattr(verdict, "value", None), bool):
            raise TypeError(f"assess_trial must return AssessResult.Good or AssessResult.Bad, not {verdict!r}")
        return not verdict.value

    def trial_end(self, trial: str, values: list[float], succeeded: bool) -> None:
        self._own.trial_end(trial, succeeded)
