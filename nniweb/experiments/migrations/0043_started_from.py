import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0042_tuner_choice")]

    operations = [
        migrations.CreateModel("EarlierExperiment", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("place", models.PositiveSmallIntegerField()),
            ("source_id", models.CharField(max_length=12)),
            ("available", models.PositiveIntegerField()),
            ("taken", models.PositiveIntegerField()),
            ("misfits", models.JSONField(default=dict)),
            ("results", models.JSONField(default=list)),
            ("compared", models.PositiveIntegerField(default=0)),
            ("correlation", models.FloatField(null=True)),
            ("weight", models.FloatField(default=0.0)),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="started_from", to="experiments.experiment")),
        ], options={"ordering": ["place"]}),
        migrations.AddConstraint("earlierexperiment", models.UniqueConstraint(
            fields=("experiment", "place"), name="one_earlier_experiment_per_place")),
    ]
