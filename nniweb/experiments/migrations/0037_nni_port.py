from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0036_parameter_sets")]

    operations = [
        migrations.AddField("experiment", "nni_port", models.PositiveIntegerField(
            editable=False, null=True, unique=True)),
        migrations.AlterField("experiment", "max_duration", models.FloatField(
            help_text="Seconds of running time.", null=True)),
    ]
