"""Experiments may run on several clusters, and attempts say on which they run.

Unfinished attempts get their experiment's cluster. Those that have ended keep none, which means the same: a table with
millions of them is not written anew.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def fill_unfinished(_: object, editor: BaseDatabaseSchemaEditor) -> None:
    editor.execute(
        "UPDATE experiments_attempt SET cluster_id = (SELECT experiment.cluster_id FROM experiments_trial trial"
        " JOIN experiments_experiment experiment ON experiment.id = trial.experiment_id"
        " WHERE trial.id = experiments_attempt.trial_id) WHERE stage IN ('submitting', 'submitted')")


class Migration(migrations.Migration):

    dependencies = [("experiments", "0054_machine_load")]

    operations = [
        migrations.AddField("experiment", "several_clusters", models.BooleanField(default=False, editable=False)),
        migrations.AddField("attempt", "cluster", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+",
            to="experiments.cluster")),
        migrations.AddField("attempt", "placement", models.JSONField(editable=False, null=True)),
        migrations.RunPython(fill_unfinished, migrations.RunPython.noop),
        migrations.AddIndex("attempt", models.Index(
            condition=models.Q(("stage__in", ["submitting", "submitted"])), fields=["cluster"],
            name="attempts_of_clusters")),
        migrations.CreateModel("ExperimentCluster", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("position", models.PositiveSmallIntegerField()),
            ("is_listed", models.BooleanField(default=True)),
            ("up_to", models.PositiveIntegerField(null=True)),
            ("weight", models.FloatField(default=1.0)),
            ("cost", models.FloatField(null=True)),
            ("after", models.JSONField(default=list)),
            ("is_drained", models.BooleanField(default=False)),
            ("trial_options", models.JSONField(default=dict)),
            ("trial_gpu_number", models.PositiveIntegerField(null=True)),
            ("gpus_of_a_trial", models.PositiveIntegerField(default=0)),
            ("used_at", models.DateTimeField(null=True)),
            ("refusal", models.JSONField(null=True)),
            ("failures", models.JSONField(default=list)),
            ("jobs_due_at", models.DateTimeField(null=True)),
            ("cleaned_at", models.DateTimeField(null=True)),
            ("cluster", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+",
                                          to="experiments.cluster")),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="cluster_rows", to="experiments.experiment")),
        ], options={"ordering": ["position", "pk"]}),
        migrations.AddConstraint("experimentcluster", models.UniqueConstraint(
            fields=("experiment", "cluster"), name="one_row_per_cluster")),
    ]
