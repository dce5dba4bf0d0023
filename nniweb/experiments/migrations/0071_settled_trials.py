"""What the trials of an experiment that have ended for good add up to."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0070_output_in_storage")]

    operations = [
        migrations.CreateModel("SettledTrials", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("until", models.BigIntegerField(default=0)),
            ("open_trials", models.JSONField(default=list)),
            ("counts", models.JSONField(default=dict)),
            ("improvements", models.JSONField(null=True)),
            ("seconds", models.FloatField(default=0.0)),
            ("first_began", models.DateTimeField(null=True)),
            ("last_ended", models.DateTimeField(null=True)),
            ("revision", models.BigIntegerField(default=0)),
            ("experiment", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE,
                                                related_name="settled_trials", to="experiments.experiment")),
        ], options={"verbose_name": "settled trials", "verbose_name_plural": "settled trials"}),
    ]
