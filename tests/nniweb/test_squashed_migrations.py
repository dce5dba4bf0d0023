"""The squashed migration makes of an empty database what the single ones do.

That they do on SQLite is shown where a database of the first release is upgraded (tests/end_to_end/installation).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from nniweb.experiments.models import User
from nniweb.experiments.sql.schema_version import is_of_this_version, missing_migrations
from nniweb.upgrades.bringing_up_to_date import bring_up_to_date
from tests.nniweb import database_schema, single_migrations
from tests.nniweb.single_migrations import SingleMigrations

APP = "experiments"
SQUASHED = (APP, "0001_squashed_0070_output_in_storage")


def test_the_models_after_it_are_those_after_the_single_ones() -> None:
    squashed, single = MigrationLoader(None), SingleMigrations(None)
    last = squashed.disk_migrations[SQUASHED].replaces[-1]
    assert squashed.project_state([SQUASHED]) == single.project_state([last])
    assert squashed.project_state() == single.project_state()


def test_it_replaces_each_single_one_up_to_its_last() -> None:
    squashed, single = MigrationLoader(None), SingleMigrations(None)
    replaced = squashed.disk_migrations[SQUASHED].replaces
    assert replaced == [key for key in single.graph.forwards_plan(replaced[-1]) if key[0] == APP]
    assert squashed.graph.leaf_nodes(APP) == [SQUASHED if key == replaced[-1] else key
                                              for key in single.graph.leaf_nodes(APP)]


def test_a_database_that_has_all_single_ones_needs_only_a_note(admin: User, settings: LazySettings, tmp_path: Path
                                                               ) -> None:
    settings.DATA_FOLDER = tmp_path
    said: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = %s AND name = %s", SQUASHED)
    assert (is_of_this_version(), missing_migrations()) == (False, 0)
    bring_up_to_date(said.append, is_server=False)
    assert is_of_this_version()
    assert (said, (tmp_path / "backups").exists()) == ([], False), "nothing changes that could be lost"


def test_a_database_that_lacks_some_single_ones_gets_these(db: None) -> None:
    lacking = [name for app, name in SingleMigrations(None).graph.nodes if app == APP and name >= "0069"]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = %s AND name >= '0069'", [APP])
    assert len(lacking) > 1
    assert (is_of_this_version(), missing_migrations()) == (False, len(lacking))


@pytest.mark.django_db(transaction=True)
def test_on_postgresql_the_schema_after_it_is_the_one_after_the_single_ones() -> None:
    """In a schema of a transaction that is undone. On SQLite this takes as long, and is shown elsewhere."""
    if connection.vendor != "postgresql":
        return
    with transaction.atomic(), connection.cursor() as cursor:
        expected = database_schema.of_postgresql(cursor, "public")
        assert {("column", "experiments_trial.rerun_of_id"), ("index", "trials_unfinished")} <= expected.keys()
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("CREATE SCHEMA single_ones")
        cursor.execute("SET LOCAL search_path TO single_ones")
        single_migrations.migrate()
        assert database_schema.of_postgresql(cursor, "single_ones") == expected
        transaction.set_rollback(True)
