"""What a user's own tuner, assessor or advisor finds under the name ``nni``: the base classes it was written against.

Only the process of such an algorithm knows it by this name. It is not the module of the same name that trials use.
"""

from typing import Any

from nniweb.tuning.custom_algorithms.nni.common import dump, load
from nniweb.tuning.custom_algorithms.nni.utils import ClassArgsValidator

__all__ = ["ClassArgsValidator", "NoMoreTrialError", "dump", "load"]


class NoMoreTrialError(Exception):
    """Raised by a tuner that has nothing to propose: for now, while trials run; for good, when none does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
