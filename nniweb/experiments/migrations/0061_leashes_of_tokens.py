"""Tokens may have a leash: roles, clusters, trials at a time. A token that was ended stays, with its limits."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0060_budgets")]

    operations = [
        migrations.AddField("apitoken", "roles", models.JSONField(default=list, editable=False)),
        migrations.AddField("apitoken", "everything", models.BooleanField(default=False, editable=False)),
        migrations.AddField("apitoken", "clusters", models.JSONField(default=list, editable=False)),
        migrations.AddField("apitoken", "max_trials", models.PositiveIntegerField(editable=False, null=True)),
        migrations.AddField("apitoken", "ended_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("apitoken", "ended_by", models.ForeignKey(
            editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+",
            to=settings.AUTH_USER_MODEL)),
    ]
