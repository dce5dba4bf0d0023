"""By which tuner ``Auto`` proposes, from what is searched and how many results there are. The figures are in
docs/decisions/0085 and docs/performance.md.
"""

from dataclasses import dataclass
from typing import Any

from trainingservice.reasons import Reason, as_document

#: A Gaussian process is fitted for each proposal, which takes a time that grows with the cube of the results.
MOST_RESULTS_OF_GP = 150
#: Proposals are made one after another: so many slots are filled quickly enough by it.
MOST_RUNNING_OF_GP = 100
#: One for each number among the parameters, and for each option of a choice.
MOST_COLUMNS_OF_GP = 80
#: With several objectives.
MOST_RESULTS_OF_TPE = 300


@dataclass(frozen=True)
class Choice:
    """A tuner, by its name among ``algorithms.TUNERS``, and why it is this one."""

    tuner: str
    reason: Reason

    def document(self) -> dict[str, Any]:
        """As JSON: ``{"tuner": "GP", "reason": {"code": ..., **arguments}}``."""
        return {"tuner": self.tuner, "reason": as_document(self.reason)}


@dataclass(frozen=True)
class Rule:
    """``columns``: what a model sees of a point; one for each number, and for each option of a choice. ``missing``:
    modules that GP needs and that are not installed.

    A choice depends on the results and the running trials alone, which a replay has at each proposal as the experiment
    had them, and on nothing that a person may change meanwhile, such as the largest number of trials.
    """

    objectives: int
    columns: int
    missing: tuple[str, ...] = ()

    @property
    def tuners(self) -> tuple[str, ...]:
        """All that it may choose."""
        if self.objectives > 1:
            return "TPE", "NSGAII"
        if self.columns > MOST_COLUMNS_OF_GP:
            return ("TPE",)
        return ("Anneal", "TPE") if self.missing else ("GP", "TPE")

    def choice(self, results: int, running: int) -> Choice:
        """Of the next proposal. ``running``: proposals that have not ended."""
        if self.objectives > 1:
            population = results > MOST_RESULTS_OF_TPE
            return Choice("NSGAII" if population else "TPE", Reason(
                "auto_objectives", objectives=self.objectives, most=MOST_RESULTS_OF_TPE, population=population))
        if results > MOST_RESULTS_OF_GP:
            return Choice("TPE", Reason("auto_many_results", most=MOST_RESULTS_OF_GP))
        if self.columns > MOST_COLUMNS_OF_GP:
            return Choice("TPE", Reason("auto_large_space", columns=self.columns, most=MOST_COLUMNS_OF_GP))
        if self.missing:
            return Choice("Anneal", Reason("auto_not_installed", wanted="GP", missing=list(self.missing)))
        if running > MOST_RUNNING_OF_GP:
            return Choice("TPE", Reason("auto_many_running", most=MOST_RUNNING_OF_GP))
        return Choice("GP", Reason("auto_model", most=MOST_RESULTS_OF_GP))
