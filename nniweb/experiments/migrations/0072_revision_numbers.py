"""On PostgreSQL revisions are drawn from a sequence: reports of one experiment are stored by several processes at a time."""

from typing import Any

from django.db import migrations


def make(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001
    if schema_editor.connection.vendor != "postgresql":
        return
    # it goes with the table, also where a backup of an older version is put back
    schema_editor.execute("CREATE SEQUENCE experiments_revision START 1001 OWNED BY experiments_experiment.revision")
    # above whatever rows have, also those that somebody has made by hand
    schema_editor.execute(
        "SELECT setval('experiments_revision', GREATEST(max(revision), 1000)) FROM experiments_experiment")


def drop(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP SEQUENCE experiments_revision")


class Migration(migrations.Migration):
    dependencies = [("experiments", "0071_settled_trials")]

    operations = [migrations.RunPython(make, drop, hints={"small_tables": True})]
