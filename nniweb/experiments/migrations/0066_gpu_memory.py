"""How much GPU memory an attempt holds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0065_code_variants")]

    operations = [
        migrations.AddField("attempt", "gpu_memory", models.BigIntegerField(editable=False, null=True)),
    ]
