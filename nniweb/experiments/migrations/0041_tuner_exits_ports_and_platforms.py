from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0040_constraints")]

    operations = [
        migrations.AddField(
            "experiment", "tuner_exit_tries", models.PositiveSmallIntegerField(editable=False, null=True)),
        migrations.AddField("experiment", "nni_port_problem", models.JSONField(editable=False, null=True)),
        migrations.AddField("worker", "platforms", models.JSONField(editable=False, null=True)),
        migrations.AddIndex("experiment", models.Index(
            fields=["cluster"], name="experiments_with_tuner_exit",
            condition=models.Q(tuner_exit_tries__isnull=False))),
    ]
