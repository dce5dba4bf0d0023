"""In how many seconds a keeper was asked to report again, and until when somebody watches."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0068_machine_shares")]

    operations = [
        migrations.AddField("attempt", "report_within", models.SmallIntegerField(editable=False, null=True)),
        migrations.AddField("experiment", "watched_until", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("trial", "watched_until", models.DateTimeField(editable=False, null=True)),
    ]
