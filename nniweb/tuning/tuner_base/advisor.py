"""What an advisor is: a tuner that hears intermediate results too and stops trials itself."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from nniweb.tuning.tuner_base.tuner import Tuner


class Advisor(Tuner):
    """As a tuner, and takes the assessor's place."""

    @abstractmethod
    def intermediate(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """``{"number", "trial", "sequence", "result"}`` in the order in which they came; ``result`` is JSON text."""

    @abstractmethod
    def take_unwanted(self) -> list[str]:
        """The trials that it wants stopped since the last call; one may be named again."""
