from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0033_listened_metrics")]

    operations = [
        migrations.AddField("attempt", "interpreter", models.TextField(editable=False, null=True)),
        migrations.AddField("attempt", "interpreter_version", models.CharField(
            editable=False, max_length=40, null=True)),
    ]
