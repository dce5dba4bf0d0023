"""A table of our own for the versions that have changed the database: they were rows of Django's table of migrations."""

from typing import Any

from django.db import migrations, models
from django.db.migrations.recorder import MigrationRecorder

#: As whose migrations the versions were noted.
APP = "nniweb"


def move_here(apps: Any, schema_editor: Any) -> None:
    noted = MigrationRecorder(schema_editor.connection).migration_qs.filter(app=APP)
    model = apps.get_model("experiments", "DatabaseVersion")
    model.objects.using(schema_editor.connection.alias).bulk_create(
        model(version=row.name, at=row.applied) for row in noted.order_by("applied", "id"))
    noted.delete()


def move_back(apps: Any, schema_editor: Any) -> None:
    """The last row of each version: a migration is there once."""
    model = apps.get_model("experiments", "DatabaseVersion")
    last = {row.version: row.at for row in model.objects.using(schema_editor.connection.alias).order_by("id")}
    recorder = MigrationRecorder(schema_editor.connection)
    recorder.migration_qs.bulk_create(
        recorder.Migration(app=APP, name=version, applied=at)
        for version, at in sorted(last.items(), key=lambda item: item[1]))


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0030_reasons'),
    ]

    operations = [
        migrations.CreateModel(
            name='DatabaseVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.CharField(max_length=255)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.RunPython(move_here, move_back),
    ]
