"""Workers say where their tuners' processes find modules, so that a launch can tell what they do not find."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0045_trial_notes"),
    ]

    operations = [
        migrations.AddField("worker", "module_folders", models.JSONField(editable=False, null=True)),
    ]
