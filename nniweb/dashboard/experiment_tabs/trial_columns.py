"""The columns that the table of trials can have, and those that it has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nniweb.dashboard.experiment_tabs.head import result_title
from nniweb.dashboard.page_query import Column, PageQuery
from nniweb.dashboard.words import value_at
from nniweb.documents.trial_query import LATEST, METRIC, PARAMETER
from nniweb.experiments.models import Experiment
from nniweb.experiments.results.other_metrics import names_of
from nniweb.experiments.trial_filter.parameter_names import parameter_names
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput

#: Parameters that have a column unless told otherwise.
MOST_PARAMETER_COLUMNS = 100
#: The columns of more parameters than this stand behind all others, so that these are seen without scrolling.
FEW_PARAMETERS = 6
#: Further metrics that have a column unless told otherwise.
MOST_METRIC_COLUMNS = 4
#: One column for all parameters.
ALL_PARAMETERS = "parameters"


@dataclass(frozen=True)
class Choice:
    """A column that one may choose."""

    name: str
    title: str
    #: Name of the order, as over REST; "" where there is none.
    order: str = ""
    number: bool = False
    #: Whether the first click on it sorts falling.
    falls_first: bool = False

    @property
    def parameter(self) -> str:
        """The parameter's name; "" for all other columns."""
        return self.name.removeprefix(PARAMETER) if self.name.startswith(PARAMETER) else ""

    @property
    def metric(self) -> str:
        """The further metric's name; "" for all other columns."""
        return self.name.removeprefix(METRIC).removeprefix(LATEST) if self.name.startswith((METRIC, LATEST)) else ""

    @property
    def part(self) -> str:
        """Which number of the metric."""
        return "latest" if self.name.startswith(LATEST) else "final"

    @property
    def pin(self) -> int:
        """Its place among the columns that stay while the table scrolls sideways; 0 where it scrolls."""
        return 2 if self.name == "result" else 0

    @property
    def kind(self) -> str:
        """What a list of columns says beside the title."""
        return "parameter" if self.parameter else "metric" if self.metric else ""


def choices_of(experiment: Experiment) -> list[Choice]:
    """Every column there is, in the order in which they stand. Two queries."""
    best_first = experiment.optimize_mode == "maximize"
    parameters = [Choice(PARAMETER + name, name, PARAMETER + name) for name in parameter_names(experiment)]
    are_few = len(parameters) <= FEW_PARAMETERS
    falls = {objective["metric"]: objective["optimize_mode"] == "maximize" for objective in experiment.objectives}
    others = names_of(experiment)
    return [
        Choice("status", "Status", "status"),
        *([Choice("front", "Front", "front", falls_first=True)] if experiment.has_several_objectives else []),
        *([Choice("mean", f"{result_title(experiment)}, mean", "mean", number=True, falls_first=best_first),
           Choice("replicate", "Replicate", number=True), Choice("seed", "Seed", number=True)]
          if experiment.has_replicates else []),
        Choice("result", result_title(experiment), "final_value", number=True, falls_first=best_first),
        *(Choice(METRIC + name, name, METRIC + name, number=True, falls_first=falls.get(name, False))
          for name in others),
        Choice("latest", "Latest", "latest", number=True, falls_first=best_first),
        *(Choice(LATEST + name, f"{name}, latest", LATEST + name, number=True, falls_first=falls.get(name, False))
          for name in others),
        Choice("intermediates", "Reports", "intermediates", number=True, falls_first=True),
        Choice("duration", "Duration", "duration", number=True, falls_first=True),
        Choice(ALL_PARAMETERS, "Parameters"),
        *(parameters if are_few else []),
        Choice("tags", "Tags", "tags"),
        *([Choice("cluster", "Cluster", "cluster")] if experiment.several_clusters else []),
        Choice("machine", "Machine", "machine"),
        Choice("gpu", "GPU", "gpu"),
        Choice("created", "Created", "created", falls_first=True),
        Choice("started", "Started", "started", falls_first=True),
        Choice("ended", "Ended", "ended", falls_first=True),
        Choice("attempt", "Attempt", "attempt", number=True, falls_first=True),
        Choice("exit_code", "Exit code", "exit_code", number=True, falls_first=True),
        *([Choice("variant", "Changed code")] if experiment.config.get("codeVariants") else []),
        Choice("source", "Chosen by", "source"),
        Choice("message", "Why", "message"),
        *([] if are_few else parameters),
    ]


def usual_names(experiment: Experiment, choices: Sequence[Choice]) -> list[str]:
    """Those that the table has unless told otherwise."""
    names = [choice.name for choice in choices if choice.parameter][:MOST_PARAMETER_COLUMNS]
    if not have_columns(experiment):
        names = [ALL_PARAMETERS]
    metrics = [choice.name for choice in choices if choice.metric and choice.part == "final"][:MOST_METRIC_COLUMNS]
    front = ["front"] if experiment.has_several_objectives else []
    front += ["mean"] if experiment.has_replicates else []
    usual = {"status", *front, "result", *metrics, "latest", "duration", *names, "cluster", "machine", "variant",
             "message"}
    return [choice.name for choice in choices if choice.name in usual]


def parameter_columns(experiment: Experiment) -> list[str]:
    """The parameters that have a column in a short table of trials. At most one query."""
    return parameter_names(experiment)[:MOST_PARAMETER_COLUMNS] if have_columns(experiment) else []


def have_columns(experiment: Experiment) -> bool:
    """Whether parameters have columns of their own. They share one where there are none in the search space, and where
    only the user's own tuner can read it, so that trials may have parameters of any name.
    """
    if experiment.has_own_tuner:
        try:
            parse_search_space(experiment.search_space)
        except InvalidInput:
            return False
    return bool(experiment.search_space)


def shown(choices: Sequence[Choice], wanted: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[Choice]:
    """Those of these names, in the order in which they stand; numbers are where all these rows have one."""
    names = set(wanted)
    return [replace(choice, number=choice.number or (bool(choice.parameter) and are_numbers(choice.parameter, rows)))
            for choice in choices if choice.name in names]


def are_numbers(parameter: str, rows: Sequence[dict[str, Any]]) -> bool:
    """Whether all of these trials that have the parameter have a number there; False where none has it."""
    values = [value_at(row["parameters"], parameter) for row in rows]
    return any(value != "" for value in values) and all(
        value == "" or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


def headings(query: PageQuery, columns: Sequence[Choice]) -> list[Column]:
    """Of the number, and of these columns."""
    return [Column(query, "No.", "sequence_id", falls_first=True, number=True, pin=1),
            *(Column(query, column.title, column.order, falls_first=column.falls_first, number=column.number,
                     pin=column.pin, breaks=bool(column.parameter)) for column in columns)]
