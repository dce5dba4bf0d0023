"""What an assessor is: it judges from intermediate results whether a running trial is worth going on with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


class Assessor(ABC):
    """Judges the trials of one experiment. Called by one thread at a time; all state is in memory and a pure function
    of the calls, so replaying them restores it. Whatever an assessor raises breaks its own experiment only.
    """

    def value_in(self, report: Mapping[str, Any]) -> Any:
        """What of a report it wants to judge: the number; None where there is none."""
        return report["value"]

    @abstractmethod
    def should_stop(self, trial: str, values: list[Any]) -> bool:
        """Whether to stop this trial now. ``values`` are its intermediate results so far, the newest last.

        Called once for each new length; not again after it has returned True for the trial, except in a replay.
        """

    def trial_end(self, trial: str, values: list[Any], succeeded: bool) -> None:
        """The trial is over and its results complete; ``succeeded`` is False for failed and for stopped ones."""

    def on_exit(self) -> None:
        """All results were handed over. Only assessors of the user's own do something then."""

    def on_error(self) -> None:
        """An algorithm of the experiment has raised. Only assessors of the user's own do something then."""
