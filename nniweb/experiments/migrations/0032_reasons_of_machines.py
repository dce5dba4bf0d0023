from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0031_database_versions")]

    operations = [
        migrations.AddField("machine", "reason", models.CharField(
            blank=True, default="", editable=False, max_length=32)),
        migrations.AddField("machine", "reason_arguments", models.JSONField(default=dict, editable=False)),
    ]
