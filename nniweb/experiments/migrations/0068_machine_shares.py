"""What an attempt holds of its machine beside GPUs."""

from django.db import migrations, models
from django.db.models import Q

from nniweb.experiments.sql.later_indexes import AddIndexLater


class Migration(migrations.Migration):
    dependencies = [("experiments", "0067_charged_owner_and_group")]

    operations = [
        migrations.AddField("attempt", "held_cpus", models.FloatField(editable=False, null=True)),
        migrations.AddField("attempt", "held_memory", models.BigIntegerField(editable=False, null=True)),
        AddIndexLater("attempt", models.Index(
            fields=["machine_identity"], name="attempts_holding_shares",
            condition=Q(Q(held_cpus__isnull=False) | Q(held_memory__isnull=False),
                        stage__in=["submitting", "submitted"]))),
    ]
