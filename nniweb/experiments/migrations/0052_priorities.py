"""Experiments have a priority, and quotas say which ones people may use."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0051_frozen_trials")]

    operations = [
        migrations.AddField("experiment", "priority", models.SmallIntegerField(default=0)),
        migrations.AddField("quota", "max_priority", models.SmallIntegerField(
            blank=True, help_text="Of their experiments, from -100 to 100. Empty: 0.", null=True,
            validators=[django.core.validators.MinValueValidator(-100), django.core.validators.MaxValueValidator(100)],
            verbose_name="highest priority")),
    ]
