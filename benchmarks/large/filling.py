"""Fills a migrated database with many experiments, trials and metrics, by copying one of each inside the database.

Django must be set up. Hundreds of thousands of rows a second on PostgreSQL, tens of thousands on SQLite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.models import Max, Model
from django.utils import timezone

from benchmarks.large.kept import CLUSTER
from nniweb.experiments.models import (
    Attempt,
    Cluster,
    Experiment,
    Metric,
    Trial,
    TrialOutput,
    TrialParameters,
    User,
)

#: Rows that one statement, which is a transaction, copies.
ROWS_AT_ONCE = {"postgresql": 500_000, "sqlite": 100_000}
#: An experiment has so many trials at a time, and each takes from half a minute to one and a half.
AT_A_TIME = 8
SHORTEST, LONGEST = 30.0, 90.0
#: Such statements that are carried out side by side. SQLite has one writer.
STATEMENTS_AT_ONCE = {"postgresql": 3, "sqlite": 1}


@dataclass(frozen=True)
class Size:
    """Trials and metrics of all experiments together; each experiment has as many of them as the others."""

    experiments: int
    trials: int
    metrics: int

    @property
    def trials_of_each(self) -> int:
        return max(1, self.trials // self.experiments)

    @property
    def metrics_of_each(self) -> int:
        return max(1, self.metrics // self.trials)


def fill(size: Size, owner: User, say: Callable[[str], object], mark: str = "a") -> list[str]:
    """Make the rows; public ids of the experiments, the first ones first. ``say`` is told of the progress. ``mark``: a
    letter in their public ids, another one with each call.

    Numbers are spread evenly by a fixed rule, so that two databases of a size are alike. Experiments are DONE.
    """
    experiment, trial, parameters, attempt, metric, output = _patterns(owner)
    of_each, metrics = size.trials_of_each, size.metrics_of_each
    trials = size.experiments * of_each
    first = {model: _last(model) + 1 for model in (Experiment, Trial, TrialParameters, Attempt, Metric, TrialOutput)}
    number = _number("i")
    # trials follow each other; the last ones end with their experiment
    pause = (SHORTEST + LONGEST) / 2 / AT_A_TIME
    took = f"({SHORTEST} + {LONGEST - SHORTEST} * {number})"
    began = f"(i % {of_each} - {of_each}) * {pause} - {LONGEST}"
    times = {"created_at": _time("ended_at", began), "started_at": _time("ended_at", began),
             "ended_at": _time("ended_at", f"{began} + {took}")}
    copy = _Copying(say)
    copy.rows(Experiment, experiment, size.experiments, {
        "id": f"{first[Experiment]} + i", "public_id": _text(f"x{mark}", "i"), "name": _text("large ", "i"),
        "next_sequence_id": str(of_each), "max_trial_number": str(of_each),
        "created_at": (first_began := _time("ended_at", f"-{of_each} * {pause} - {LONGEST}")),
        "started_at": first_began})
    copy.rows(Trial, trial, trials, {
        "id": f"{first[Trial]} + i", "experiment_id": f"{first[Experiment]} + i / {of_each}",
        "sequence_id": f"i % {of_each}", "public_id": _text(f"t{mark}", "i"), "ask_number": f"i % {of_each}",
        "final_number": number, "final_value": _exact_text(number), "intermediate_count": str(metrics - 1),
        "status": "CASE WHEN i % 20 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END", **times})
    copy.rows(TrialParameters, parameters, trials, {
        "id": f"{first[TrialParameters]} + i", "trial_id": f"{first[Trial]} + i",
        "parameter_id": _json_number(f"i % {of_each}"),
        "value": _json({"x": _number("i"), "y": _number("i + 7"), "layers": "i % 5"})})
    copy.rows(Attempt, attempt, trials, {
        "id": f"{first[Attempt]} + i", "trial_id": f"{first[Trial]} + i", "job_name": _text(f"t{mark}", "i"),
        "duration": took, "end_received_at": times["ended_at"], **times})
    copy.rows(TrialOutput, output, trials, {
        "id": f"{first[TrialOutput]} + i", "attempt_id": f"{first[Attempt]} + i"})
    with _indexed_afterwards(Metric, trials * metrics, say):
        copy.rows(Metric, metric, trials * metrics, {
            "id": f"{first[Metric]} + i", "attempt_id": f"{first[Attempt]} + i / {metrics}", "n": f"i % {metrics}",
            "sequence": f"i % {metrics}", "number": number, "value": _exact_text(number),
            "kind": f"CASE WHEN i % {metrics} = {metrics - 1} THEN 'FINAL' ELSE 'PERIODICAL' END"})
    experiment.delete()
    _note_keys(list(first))
    return list(Experiment.objects.order_by("pk").filter(pk__gte=first[Experiment]).values_list(
        "public_id", flat=True)[:size.experiments])


def _patterns(owner: User) -> tuple[Experiment, Trial, TrialParameters, Attempt, Metric, TrialOutput]:
    """One row of each kind, which all others are like."""
    cluster, _ = Cluster.objects.get_or_create(name=CLUSTER, defaults={"platform": "scripted", "enabled": False})
    now = timezone.now()
    ended = now - timedelta(days=3)
    experiment = Experiment.objects.create(
        name="pattern", owner=owner, cluster=cluster, seed=1, tuner={"name": "Random"}, optimize_mode="maximize",
        trial_command="true", trial_concurrency=1, gpus_of_a_trial=1, created_at=ended, started_at=ended,
        ended_at=ended, status="DONE",
        search_space={"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]},
                      "layers": {"_type": "randint", "_value": [0, 5]}})
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, created_at=ended,
                                 started_at=ended - timedelta(minutes=1),
                                 ended_at=ended, taught=True, intermediate_count=1)
    parameters = TrialParameters.objects.create(trial=trial, parameter_id=0, value={"x": 0.5}, taught=True)
    attempt = Attempt.objects.create(trial=trial, cluster=cluster, job_name=trial.public_id, created_at=ended,
                                     stage="ended", started_at=ended - timedelta(minutes=1), ended_at=ended,
                                     end_received_at=ended, duration=60.0)
    metric = Metric.objects.create(attempt=attempt, n=0, kind="PERIODICAL", sequence=0, value="0.5", number=0.5,
                                   recorded_at=ended, received_at=ended)
    output = TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=b"epoch 1\n" * 16)
    return experiment, trial, parameters, attempt, metric, output


class _Copying:
    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say

    def rows(self, model: type[Model], pattern: Model, count: int, columns: Mapping[str, str]) -> None:
        """``columns``: what is not as in the pattern, an expression of i, which counts from 0."""
        began, at_once = time.monotonic(), ROWS_AT_ONCE[connection.vendor]

        def copy(start: int) -> int:
            end = min(count, start + at_once)
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(self._statement(model, pattern, start, end - 1, columns))
            return end

        for end in _side_by_side(copy, range(0, count, at_once)):
            passed = time.monotonic() - began
            left = passed * (count - end) / end
            self._say(f"{model._meta.verbose_name_plural}: {end:,} of {count:,}, {end / max(passed, 0.001):,.0f} rows/s"
                      + (f", about {left:.0f} s left" if end < count else ""))

    @staticmethod
    def _statement(model: type[Model], pattern: Model, first: int, last: int, columns: Mapping[str, str]) -> str:
        quoted = connection.ops.quote_name
        names = [field.column for field in model._meta.concrete_fields]
        assert set(columns) <= set(names), f"{model.__name__} has no {set(columns) - set(names)}"
        values = ", ".join(columns.get(name, f"pattern.{quoted(name)}") for name in names)
        table = quoted(model._meta.db_table)
        series = f"generate_series({first}::bigint, {last}::bigint) AS s(i)" if connection.vendor == "postgresql" else (
            f"(WITH RECURSIVE s(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM s WHERE i < {last}) SELECT i FROM s)"
            " AS s")
        return (f"INSERT INTO {table} ({', '.join(map(quoted, names))}) SELECT {values}"
                f" FROM {table} AS pattern, {series} WHERE pattern.id = {int(pattern.pk)}")


def _side_by_side(copy: Callable[[int], int], starts: Sequence[int]) -> Iterator[int]:
    """What each call returns, in order. With several threads, each has a connection, which it closes."""
    threads = min(STATEMENTS_AT_ONCE[connection.vendor], len(starts))
    if threads <= 1:
        yield from map(copy, starts)
        return

    def copy_and_close(start: int) -> int:
        try:
            return copy(start)
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(copy_and_close, starts)


@contextmanager
def _indexed_afterwards(model: type[Model], count: int, say: Callable[[str], object]) -> Iterator[None]:
    """On PostgreSQL, where more rows come than are there, take the table's constraints and indexes away, and make them
    again behind the rows: four times as fast. Its primary key stays.
    """
    if connection.vendor != "postgresql" or count < _last(model):
        yield
        return
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
                       " WHERE conrelid = %s::regclass AND contype IN ('u', 'f') ORDER BY contype DESC", [table])
        constraints = cursor.fetchall()
        for name, _ in constraints:
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        cursor.execute("SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
                       " WHERE indrelid = %s::regclass AND NOT indisprimary", [table])
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
    yield
    say("indexes are built")
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)
        for name, definition in constraints:
            cursor.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')
        cursor.execute("RESET maintenance_work_mem")


def _last(model: type[Model]) -> int:
    return int(model._default_manager.aggregate(last=Max("pk"))["last"] or 0)


def _note_keys(models: list[type[Model]]) -> None:
    """Have rows that are made later begin behind these."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


def _number(n: str) -> str:
    """From 0 to 1, in no order: by multiplication with a prime, modulo another."""
    return f"CAST((({n}) * 48271) % 999983 AS double precision) / 999983"


def _time(column: str, seconds: str) -> str:
    """So many seconds after what the pattern has in a column."""
    if connection.vendor == "postgresql":
        return f"pattern.{column} + ({seconds}) * interval '1 second'"
    return f"strftime('%Y-%m-%d %H:%M:%f000', pattern.{column}, CAST({seconds} AS text) || ' seconds')"


def _text(prefix: str, n: str) -> str:
    return f"'{prefix}' || CAST({n} AS text)"


def _exact_text(number: str) -> str:
    """As an ``ExactTextField`` stores it."""
    text = f"CAST({number} AS text)"
    return f"convert_to({text}, 'UTF8')" if connection.vendor == "postgresql" else f"CAST({text} AS blob)"


def _json_number(value: str) -> str:
    return f"to_jsonb({value})" if connection.vendor == "postgresql" else f"CAST({value} AS text)"


def _json(members: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{name}', {value}" for name, value in members.items())
    return f"jsonb_build_object({listed})" if connection.vendor == "postgresql" else f"json_object({listed})"
