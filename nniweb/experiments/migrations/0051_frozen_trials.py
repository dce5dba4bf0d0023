"""Trials may be wanted frozen."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0050_checkpoints")]

    operations = [
        migrations.AlterField(
            model_name="trial", name="target",
            field=models.CharField(
                choices=[("RUN", "Run"), ("USER_CANCELED", "User Canceled"), ("EARLY_STOPPED", "Early Stopped"),
                         ("SYS_CANCELED", "Sys Canceled"), ("FROZEN", "Frozen"), ("HELD", "Held"),
                         ("PREEMPTED", "Preempted")],
                default="RUN", max_length=13)),
    ]
