"""What an attempt ran out of, and GPUs that a job has for itself."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0062_audit_by_token")]

    operations = [
        migrations.AddField("attempt", "gpu_alone", models.BooleanField(editable=False, null=True)),
        migrations.AddField("attempt", "out_of_memory", models.CharField(editable=False, max_length=4, null=True)),
        migrations.AddField("attempt", "gpu_total", models.BigIntegerField(editable=False, null=True)),
    ]
