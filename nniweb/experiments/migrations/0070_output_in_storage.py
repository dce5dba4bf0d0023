"""Output of ended trials may lie in the storage of files."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0069_report_intervals")]

    operations = [
        migrations.AddField("experiment", "output_stored_until", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("diskusage", "output_stored_bytes", models.BigIntegerField(default=0)),
        # without defaults: neither database rewrites the rows that are there
        migrations.AddField("trialoutput", "storage_path", models.CharField(editable=False, max_length=200, null=True)),
        migrations.AddField("trialoutput", "stored_end", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("trialoutput", "stored_size", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("trialoutput", "stored_sha256", models.CharField(editable=False, max_length=64, null=True)),
    ]
