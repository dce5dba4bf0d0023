"""How much GPU memory an attempt was seen to have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0063_out_of_memory")]

    operations = [
        migrations.AddField("attempt", "gpu_peak", models.BigIntegerField(editable=False, null=True)),
        migrations.AddIndex("attempt", models.Index(
            fields=["trial"], name="attempts_with_gpu_peaks", condition=models.Q(gpu_peak__isnull=False))),
    ]
