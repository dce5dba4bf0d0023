"""Metrics beside the main one: found in what trials report, kept ready as numbers for tables, filters and charts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from nniweb.experiments.models import Experiment, MetricName, MetricNumber
from nniweb.experiments.results.metric_number import DEFAULT, numbers_in
from nniweb.experiments.sql.exact_text import printable

#: Different names that one experiment may have; what comes after these stays in the reported text alone.
MOST_NAMES = 50
LONGEST_NAME = 100

Numbers = Mapping[str, float]
_TABLE = MetricNumber._meta.db_table
_UPSERT = (f"INSERT INTO {_TABLE} (trial_id, metric_id, final, latest) VALUES (%s, %s, %s, %s)"
           " ON CONFLICT (trial_id, metric_id) DO UPDATE SET"
           f" final = COALESCE({_TABLE}.final, excluded.final), latest = COALESCE(excluded.latest, {_TABLE}.latest)")


def main_metric(objectives: Sequence[Mapping[str, Any]]) -> str:
    """The metric whose number is a trial's result: the first objective."""
    return str(objectives[0]["metric"]) if objectives else DEFAULT


def names_of(experiment: Experiment) -> list[str]:
    """The experiment's further metrics: those it searches by first, then those that trials have reported."""
    wanted = [str(objective["metric"]) for objective in experiment.objectives[1:]]
    reported = MetricName.objects.filter(experiment=experiment).values_list("name", flat=True)
    return list(dict.fromkeys([*wanted, *reported]))


def mode_of(experiment: Experiment, metric: str) -> str | None:
    """Whether more or less of this metric is better; None where the experiment does not say."""
    if metric == main_metric(experiment.objectives):
        return str(experiment.optimize_mode)
    return next((str(one["optimize_mode"]) for one in experiment.objectives if one["metric"] == metric), None)


def numbers_of_metric(experiment: Experiment, metric: str) -> QuerySet[MetricNumber]:
    """What the experiment's trials reported of a further metric, in no order."""
    names = MetricName.objects.filter(experiment=experiment, name=metric).values_list("pk", flat=True)
    return MetricNumber.objects.filter(metric=names.first() or 0)


class OtherMetrics:
    """For one transaction that holds the rows of the experiments it is asked about."""

    def __init__(self) -> None:
        self._mains: dict[int, str] = {}
        self._ids: dict[int, dict[str, int]] = {}

    def read(self, value: str, experiment_pk: int) -> tuple[float | None, Numbers]:
        """The result in a reported metric, and the other numbers in it. A plain number is the main metric's."""
        number, named = numbers_in(value)
        if named is None:
            return number, {}
        main = self._main(experiment_pk)
        return named.pop(main, None), named

    def keep(self, experiment_pk: int, trial_pk: int, final: Numbers, latest: Numbers) -> None:
        """Keep the numbers of a trial's (first) final result and of its latest intermediate ones."""
        ids = self._ids_of(experiment_pk, [*final, *latest])
        rows = [(trial_pk, ids[name], final.get(name), latest.get(name))
                for name in dict.fromkeys([*final, *latest]) if name in ids]
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(_UPSERT, rows)

    def _main(self, experiment_pk: int) -> str:
        if experiment_pk not in self._mains:
            objectives = Experiment.objects.values_list("objectives", flat=True).get(pk=experiment_pk)
            self._mains[experiment_pk] = main_metric(objectives)
        return self._mains[experiment_pk]

    def _ids_of(self, experiment_pk: int, names: Iterable[str]) -> Mapping[str, int]:
        if experiment_pk not in self._ids:
            self._ids[experiment_pk] = _stored_ids(experiment_pk)
        known = self._ids[experiment_pk]
        new = [name for name in dict.fromkeys(names) if name not in known and _is_a_name(name)]
        if new and len(known) < MOST_NAMES:
            MetricName.objects.bulk_create(
                [MetricName(experiment_id=experiment_pk, name=name) for name in new[:MOST_NAMES - len(known)]],
                ignore_conflicts=True)
            known = self._ids[experiment_pk] = _stored_ids(experiment_pk)
        return known


def _stored_ids(experiment_pk: int) -> dict[str, int]:
    return dict(MetricName.objects.filter(experiment=experiment_pk).values_list("name", "pk"))


def _is_a_name(name: str) -> bool:
    """Whether it fits into a column, and onto a page."""
    return 0 < len(name) <= LONGEST_NAME and printable(name) == name and bool(name.strip())

