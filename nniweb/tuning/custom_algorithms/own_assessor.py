"""A user's assessor behind our interface."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.custom_algorithms.loading import call_if_there, load_assessor, make_own
from nniweb.tuning.custom_algorithms.reported_result import reported


class OwnAssessor(Assessor):
    """Calls the methods of NNI's ``Assessor`` with the results as the trials reported them."""

    def __init__(self, document: Mapping[str, Any], seed: int) -> None:
        self._own = make_own(load_assessor(document), document, seed)

    def value_in(self, report: Mapping[str, Any]) -> Any:
        return report["value"] if report.get("result") is None else reported(report["result"])

    def should_stop(self, trial: str, values: list[Any]) -> bool:
        verdict = self._own.assess_trial(trial, list(values))
        is_good = getattr(verdict, "value", verdict)
        if not isinstance(is_good, bool | np.bool_):
            raise TypeError("assess_trial must return AssessResult.Good or AssessResult.Bad, or True or False, "
                            f"not {verdict!r}")
        return not is_good

    def trial_end(self, trial: str, values: list[Any], succeeded: bool) -> None:
        self._own.trial_end(trial, succeeded)

    def on_exit(self) -> None:
        call_if_there(self._own, "_on_exit")

    def on_error(self) -> None:
        call_if_there(self._own, "_on_error")
