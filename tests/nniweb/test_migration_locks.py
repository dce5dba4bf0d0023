"""No new migration locks a big table for longer than it takes to change the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, migrations, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from nniweb.experiments.sql.later_indexes import AddIndexLater, missing_indexes
from nniweb.upgrades.bringing_up_to_date import bring_up_to_date
from tests.nniweb import single_migrations
from tests.nniweb.migration_locks import BIG, SMALL_TABLES, long_locks
from tests.nniweb.single_migrations import SingleMigrations

APP = "experiments"
#: The last one of before this rule.
BEFORE = (APP, "0067_charged_owner_and_group")


@pytest.fixture(scope="module")
def loader() -> MigrationLoader:
    """Of the single ones: no squashed one is applied to a table with rows."""
    return SingleMigrations(None)


@pytest.fixture(scope="module")
def latest(loader: MigrationLoader) -> ProjectState:
    return loader.project_state()


def new_migrations(loader: MigrationLoader) -> list[tuple[str, str]]:
    [latest] = loader.graph.leaf_nodes(APP)
    return [key for key in loader.graph.forwards_plan(latest) if key[0] == APP and key[1] > BEFORE[1]]


def test_no_new_migration_holds_up_a_big_table(loader: MigrationLoader) -> None:
    found = {f"{key[1]}: {said}" for key in new_migrations(loader)
             for said in long_locks(loader.graph.nodes[key], loader.project_state(key, at_end=False))}
    assert found == set(), "change the migration, or fill the table in the background (see docs/scale.md)"


def test_big_tables_are_tables(latest: ProjectState) -> None:
    assert {(APP, name) for name in BIG} <= latest.models.keys()


@pytest.mark.parametrize(("operation", "is_refused"), [
    (lambda: migrations.AddField("metric", "note", models.TextField(null=True)), False),
    (lambda: migrations.AddField("metric", "note", models.IntegerField(default=0)), False),
    (lambda: migrations.AddField("metric", "note", models.IntegerField(default=int)), True),
    (lambda: migrations.AddField("metric", "note", models.IntegerField()), True),
    (lambda: migrations.AddField("metric", "note", models.PositiveIntegerField(null=True)), True),
    (lambda: migrations.AddField("metric", "note", models.IntegerField(null=True, db_index=True)), True),
    (lambda: migrations.AddField("trial", "other", models.ForeignKey("experiments.user", models.CASCADE, null=True)),
     True),
    (lambda: migrations.AddField("user", "note", models.IntegerField(default=int)), False),
    (lambda: migrations.AddIndex("metric", models.Index(fields=["number"], name="metrics_by_number")), True),
    (lambda: AddIndexLater("metric", models.Index(fields=["number"], name="metrics_by_number")), False),
    (lambda: migrations.AddIndex("cluster", models.Index(fields=["name"], name="clusters_by_name")), False),
    (lambda: migrations.AddConstraint("trial", models.UniqueConstraint(fields=["token"], name="one")), True),
    (lambda: migrations.RemoveField("metric", "revision"), False),
    (lambda: migrations.RunPython(migrations.RunPython.noop), True),
    (lambda: migrations.RunPython(migrations.RunPython.noop, hints={SMALL_TABLES: True}), False),
    (lambda: migrations.RunSQL("UPDATE experiments_metric SET n = n"), True),
    (lambda: migrations.AlterField("metric", "kind", models.CharField(max_length=30)), False),
    (lambda: migrations.AlterField("metric", "kind", models.CharField(max_length=5)), True),
    (lambda: migrations.AlterField("metric", "kind", models.TextField()), True),
    (lambda: migrations.AlterField("metric", "number", models.FloatField()), True),
    (lambda: migrations.AlterField("metric", "n", models.BigIntegerField(help_text="The number.")), False),
    (lambda: migrations.AlterUniqueTogether("metric", {("attempt", "kind")}), True),
])
def test_what_locks_a_big_table_is_seen(latest: ProjectState, operation: Callable[[], Operation], is_refused: bool
                                        ) -> None:
    migration = Migration("9999_new", APP)
    migration.operations = [operation()]
    assert bool(list(long_locks(migration, latest.clone()))) is is_refused


def _files_and_reads() -> dict[str, Any]:
    """Of each big table: which file has its rows, and how many rows this transaction has read from it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, relfilenode, pg_stat_get_xact_tuples_returned(oid) FROM pg_class WHERE relname = ANY(%s)",
            [[f"{APP}_{name}" for name in BIG]])
        return {name: rest for name, *rest in cursor.fetchall()}


@pytest.mark.django_db(transaction=True)
def test_on_postgresql_their_rows_are_neither_read_nor_written(make_attempt: Callable[..., Any], loader: MigrationLoader
                                                               ) -> None:
    """With the migrations themselves, in a transaction that is undone."""
    if connection.vendor != "postgresql":
        return  # SQLite has one process at a time while it is migrated
    make_attempt()
    with transaction.atomic():
        single_migrations.migrate(BEFORE)
        before = _files_and_reads()
        single_migrations.migrate(new_migrations(loader)[-1])
        assert _files_and_reads() == before
        assert "attempts_holding_shares" in {index.name for _, index in missing_indexes()}, "it is built afterwards"
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True)
def test_what_an_upgrade_left_to_be_built_is_built_beside_the_work_and_once(make_attempt: Callable[..., Any]) -> None:
    said: list[str] = []
    if connection.vendor == "postgresql":
        make_attempt()
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX attempts_holding_shares")
            # as one looks whose building was interrupted
            cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'attempts_of_places'::regclass")
        names = {index.name for _, index in missing_indexes()}
        assert names == {"attempts_holding_shares", "attempts_of_places"}
        bring_up_to_date(said.append, is_server=False)
        assert len(said) == 2
        assert all(any(f"{name}," in sentence for sentence in said) for name in names), said
    assert missing_indexes() == []
    said.clear()
    bring_up_to_date(said.append, is_server=False)
    assert said == []
