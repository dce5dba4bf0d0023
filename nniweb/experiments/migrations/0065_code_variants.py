"""Trials may have files of their own instead of those of their experiment's code."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0064_gpu_peaks")]

    operations = [
        migrations.CreateModel("CodeVariant", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("sha256", models.CharField(max_length=64, unique=True)),
            ("size", models.BigIntegerField()),
            ("changed_bytes", models.BigIntegerField()),
            ("file_count", models.PositiveIntegerField()),
            ("storage_path", models.CharField(max_length=200)),
            ("last_used", models.DateTimeField()),
            ("removed_at", models.DateTimeField(editable=False, null=True)),
        ]),
        migrations.AddField("trial", "variant", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT,
            related_name="trials", to="experiments.codevariant")),
        migrations.AddIndex("trial", models.Index(
            fields=["variant"], name="trials_of_variants", condition=models.Q(variant__isnull=False))),
    ]
