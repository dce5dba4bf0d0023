"""Trials that go on with earlier ones. The column may be NULL: on SQLite it is added without a copy of the table."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0052_priorities"),
    ]

    operations = [
        migrations.AddField("trial", "continues", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL,
            related_name="continued_by", to="experiments.trial")),
        migrations.AddIndex("trial", models.Index(
            condition=models.Q(("continues__isnull", False)), fields=["continues"], name="trials_continuing")),
    ]
