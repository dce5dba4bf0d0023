"""How busy a machine is. The column may be NULL: on SQLite it is added without a copy of the table."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0053_continued_trials"),
    ]

    operations = [
        migrations.AddField("machine", "load", models.JSONField(editable=False, null=True)),
    ]
