"""Whom an attempt is charged to."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0066_gpu_memory")]

    operations = [
        migrations.AddField("attempt", "charged_owner_id", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("attempt", "charged_group_id", models.BigIntegerField(editable=False, null=True)),
    ]
