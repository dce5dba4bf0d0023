"""What an attempt is charged for whose experiment asks for something else by now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0072_revision_numbers")]

    operations = [
        migrations.AddField("attempt", "charged_gpus", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("attempt", "charged_cpus", models.FloatField(editable=False, null=True)),
    ]
