"""Lists are sorted by when an experiment last changed; a cluster's page shows what its last rehearsal found."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.functions import Coalesce


def begin_with_the_times_there_are(apps: Apps, _: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("experiments", "Experiment").objects.filter(changed_at=None).update(
        changed_at=Coalesce("ended_at", "started_at", "created_at"))


class Migration(migrations.Migration):
    dependencies = [("experiments", "0004_code_from_git")]

    operations = [
        migrations.AddField("experiment", "changed_at", models.DateTimeField(null=True)),
        migrations.AddField("cluster", "rehearsal", models.JSONField(editable=False, null=True)),
        migrations.AddField("cluster", "rehearsed_at", models.DateTimeField(editable=False, null=True)),
        migrations.RunPython(begin_with_the_times_there_are, migrations.RunPython.noop),
    ]
