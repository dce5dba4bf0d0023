"""Experiments and trials know the API token by which they were asked for."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0058_proposal_keys")]

    operations = [
        migrations.AddField("experiment", "token", models.ForeignKey(
            editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="experiments",
            to="experiments.apitoken")),
        migrations.AddField("trial", "token", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL,
            related_name="trials", to="experiments.apitoken")),
        migrations.AddIndex("trial", models.Index(
            fields=["token"], name="trials_by_token", condition=models.Q(token__isnull=False))),
    ]
