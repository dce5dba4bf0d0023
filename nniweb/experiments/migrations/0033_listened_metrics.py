from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0032_reasons_of_machines")]

    operations = [
        migrations.AddField("attempt", "listened", models.BigIntegerField(default=0)),
        migrations.AddField("attempt", "tags", models.JSONField(default=list)),
    ]
