"""Times that hosts must agree on are written and judged by the database's clock, all others by that of the process."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from nniweb.dashboard.clusters import driver_of
from nniweb.database.database_clock import COLUMNS, DatabaseNow, database_now
from nniweb.experiments.clusters.lease import Lease
from nniweb.experiments.models import Cluster, Experiment, Worker
from nniweb.observability.database_figures import DatabaseFigures

NNIWEB = Path(__file__).parents[3] / "nniweb"
CLOCK = {"DatabaseNow", "database_now"}
COMPARISONS = {"lt", "lte", "gt", "gte", "range"}
#: A comparison in Python of a time that the database's clock has written, through another name.
READERS = {"nniweb/observability/database_figures.py", "nniweb/doctor/program.py",
           "nniweb/experiments/clusters/worker_presence.py"}


# --- what the clock does ---------------------------------------------------------------------


def stored(moment: datetime) -> Worker:
    return Worker.objects.create(id="ada", host="ada", pid=1, started_at=moment, heard_at=moment)


@pytest.mark.django_db
def test_what_was_written_just_now_is_found_at_once() -> None:
    for number in range(200):  # with a clock of milliseconds nearly each is missed
        worker = stored(database_now())
        assert Worker.objects.filter(heard_at__lte=DatabaseNow()).exists(), number
        worker.delete()


@pytest.mark.django_db
def test_a_whole_second_is_compared_as_one() -> None:
    stored(database_now().replace(microsecond=0) - timedelta(seconds=2))
    assert Worker.objects.filter(heard_at__gte=DatabaseNow() - timedelta(hours=1), heard_at__lt=DatabaseNow()).exists()
    assert not Worker.objects.filter(heard_at__gt=DatabaseNow() - timedelta(seconds=1)).exists()


@pytest.mark.django_db
def test_both_forms_go_by_the_same_clock_and_count_microseconds() -> None:
    seen = set()
    for _ in range(20):
        before = database_now()
        worker = stored(before)
        Worker.objects.update(heard_at=DatabaseNow())
        worker.refresh_from_db()
        assert before <= worker.heard_at <= database_now()
        seen.add(worker.heard_at.microsecond % 1000)
        worker.delete()
    assert len(seen) > 1, "milliseconds only"


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", [-3600, 3600])
def test_a_lease_is_told_rightly_on_a_host_whose_clock_is_wrong(
        make_experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, wrong_by: int) -> None:
    monkeypatch.setattr("nniweb.experiments.clusters.lease.LEASE_SECONDS", 600.0)  # the machine may be slow
    monkeypatch.setattr("nniweb.observability.database_figures.LEASE_SECONDS", 600.0)
    cluster = make_experiment().cluster
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(seconds=wrong_by))
    assert Lease.acquire(cluster, "somebody") is not None
    cluster.refresh_from_db()
    assert driver_of(cluster) == "The worker somebody runs this cluster."
    figures = {family.name: family.samples for family in DatabaseFigures().collect()}
    assert [sample.value for sample in figures["nniweb_lease_held"]] == [1.0]
    assert [sample.value for sample in figures["nniweb_lease_renewed_seconds"]] == [pytest.approx(0.0, abs=300)]
    assert Lease.acquire(cluster, "another") is None
    Cluster.objects.update(lease_expires_at=database_now() - timedelta(seconds=1))
    cluster.refresh_from_db()
    assert driver_of(cluster).startswith("No worker runs this cluster")


# --- what the code does ----------------------------------------------------------------------


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Our modules by name; those that are allowed to mix are left out."""
    return {str(path.relative_to(NNIWEB.parent)): ast.parse(path.read_text()) for path in sorted(NNIWEB.rglob("*.py"))
            if path.name != "database_clock.py" and "migrations" not in path.parts}


@functools.cache
def ambiguous_columns() -> frozenset[str]:
    """Names of columns that in some models are of one clock, in others of the other."""
    return frozenset(field.name for model in apps.get_models() for field in model._meta.get_fields()
                     if isinstance(field, models.DateTimeField) and (model.__name__, field.name) not in COLUMNS
                     and field.name in {column for _, column in COLUMNS})


def uses_database_clock(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id in CLOCK for each in ast.walk(node))


def model_of(call: ast.Call) -> str:
    """The model whose rows a chain of calls asks, where it begins with its name; "" where it does not."""
    node: ast.AST = call
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) and node.id[:1].isupper() else ""


def mixed_clocks(name: str, tree: ast.Module) -> list[str]:
    """Places where a time of one clock meets one of the other, as far as names tell."""
    ambiguous = ambiguous_columns()
    columns = {column for _, column in COLUMNS}
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        for keyword in call.keywords:
            column, _, lookup = (keyword.arg or "").partition("__")
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            is_compared = lookup in COMPARISONS
            is_written = method in ("update", "create") and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
            if not (is_compared or is_written) or (not is_compared and lookup):
                continue
            model = model_of(call)
            is_of_database = (model, column) in COLUMNS if column in ambiguous else column in columns
            if is_of_database != uses_database_clock(keyword.value):
                found.append(f"{name}:{keyword.value.lineno} {keyword.arg}")
    for compare in (node for node in ast.walk(tree) if isinstance(node, ast.Compare)):
        sides = [compare.left, *compare.comparators]
        read = {node.attr for side in sides for node in ast.walk(side) if isinstance(node, ast.Attribute)}
        orders = any(isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for operator in compare.ops)
        if orders and read & (columns - ambiguous) and not uses_database_clock(compare):
            found.append(f"{name}:{compare.lineno} {ast.unparse(compare)}")
    return found


@pytest.mark.parametrize(("line", "count"), [
    ("NotificationDelivery.objects.filter(due_at__lte=DatabaseNow())", 1),
    ("NotificationDelivery.objects.filter(due_at__lte=now)", 0),
    ("Q(claimed_until__lt=timezone.now())", 1),
    ("Q(claimed_until__lt=DatabaseNow() - delay)", 0),
    ("rows.update(lease_expires_at=timezone.now() + delay)", 1),
    ("rows.update(lease_expires_at=None)", 0),
    ("rows.update(ended_at=DatabaseNow())", 1),
    ("Worker.objects.filter(heard_at__lt=limit)", 1),
    ("Attempt.objects.filter(heard_at__lt=limit)", 0),
    ("cluster.lease_expires_at > now", 1),
    ("cluster.lease_expires_at > database_now()", 0),
    ("cluster.lease_expires_at is not None", 0),
])
def test_a_mixture_of_clocks_would_be_found(line: str, count: int) -> None:
    assert len(mixed_clocks("a.py", ast.parse(line))) == count


def test_no_time_of_one_clock_is_compared_with_one_of_the_other() -> None:
    assert [place for name, tree in sources().items() for place in mixed_clocks(name, tree)] == []


def test_the_database_is_asked_for_its_time_in_one_place() -> None:
    other = re.compile(r"functions import .*\bNow\b|CURRENT_TIMESTAMP|(clock|statement)_timestamp|SELECT now\(\)|"
                       r"strftime\('%|'now'", re.IGNORECASE)
    found = [str(path.relative_to(NNIWEB.parent)) for path in sorted(NNIWEB.rglob("*.py"))
             if path.name != "database_clock.py" and other.search(path.read_text())]
    assert found == []


def test_columns_of_the_databases_clock_exist_and_are_read_where_its_time_is_known() -> None:
    for model, column in COLUMNS:
        assert isinstance(apps.get_model("experiments", model)._meta.get_field(column), models.DateTimeField)
    for name in READERS:
        assert uses_database_clock(sources()[name]), name
    readers = {name for name, tree in sources().items() for node in ast.walk(tree)
               if isinstance(node, ast.Attribute) and node.attr in ("lease_expires_at", "claimed_until")}
    assert readers <= READERS
