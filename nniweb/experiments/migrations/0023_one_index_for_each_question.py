"""Indexes of one column that is the first one of a unique index, too, cost each report and serve nobody.

They are dropped by hand: on SQLite Django would copy the tables, which are the largest ones.
"""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

#: Model, foreign key, the model it leads to, and the name of the way back.
_KEYS = (
    ("metric", "attempt", "attempt", "metrics"),
    ("metricnumber", "trial", "trial", "metric_numbers"),
    ("trialoutput", "attempt", "attempt", "output"),
    ("trialparameters", "trial", "trial", "parameter_sets"),
    ("tunerevent", "experiment", "experiment", "tuner_events"),
)


def drop(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    for model_name, field_name, _, _ in _KEYS:
        model = apps.get_model("experiments", model_name)
        column = model._meta.get_field(field_name).column
        with connection.cursor() as cursor:
            found = connection.introspection.get_constraints(cursor, model._meta.db_table)
        for name, one in found.items():
            if one["index"] and not one["unique"] and one["columns"] == [column]:
                schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(name)}")


def create(apps: Any, schema_editor: Any) -> None:
    for model_name, field_name, _, _ in _KEYS:
        model = apps.get_model("experiments", model_name)
        schema_editor.execute(schema_editor._create_index_sql(model, fields=[model._meta.get_field(field_name)]))


class Migration(migrations.Migration):
    dependencies = [("experiments", "0022_disk_usage")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name, field_name, models.ForeignKey(
                        f"experiments.{target}", django.db.models.deletion.CASCADE, related_name=way_back,
                        db_index=False))
                for model_name, field_name, target, way_back in _KEYS],
            database_operations=[migrations.RunPython(drop, create)]),
    ]
