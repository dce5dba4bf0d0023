import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0038_ended_jobs")]

    operations = [
        migrations.AddField("experiment", "replicates", models.JSONField(default=dict, editable=False)),
        migrations.CreateModel("Proposal", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("number", models.PositiveIntegerField(null=True)),
            ("first_sequence_id", models.PositiveIntegerField()),
            ("state", models.CharField(choices=[("open", "Open"), ("complete", "Complete"), ("dropped", "Dropped")],
                                       default="open", max_length=8)),
            ("begun", models.PositiveIntegerField(default=1)),
            ("wanted", models.PositiveIntegerField(default=1)),
            ("value_count", models.PositiveIntegerField(default=0)),
            ("failed_count", models.PositiveIntegerField(default=0)),
            ("mean", models.FloatField(null=True)),
            ("standard_error", models.FloatField(null=True)),
            ("is_told", models.BooleanField(default=False)),
            ("told_value", models.FloatField(null=True)),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="proposals", to="experiments.experiment")),
        ]),
        migrations.AddField("trial", "proposal", models.ForeignKey(
            db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL,
            related_name="trials", to="experiments.proposal")),
        migrations.AddField("trial", "replicate", models.PositiveIntegerField(editable=False, null=True)),
        migrations.AddField("trial", "seed", models.BigIntegerField(editable=False, null=True)),
        migrations.AddField("trial", "counted_value", models.FloatField(editable=False, null=True)),
        migrations.AddIndex("trial", models.Index(
            condition=models.Q(("proposal__isnull", False)), fields=["proposal"], name="trials_of_proposals")),
        migrations.AddIndex("proposal", models.Index(
            condition=models.Q(("state", "complete")), fields=["experiment", "mean"], name="proposals_by_mean")),
        migrations.AddIndex("proposal", models.Index(
            condition=models.Q(("begun__lt", models.F("wanted"))), fields=["experiment"],
            name="proposals_with_more_to_run")),
        migrations.AddConstraint("proposal", models.UniqueConstraint(
            fields=("experiment", "first_sequence_id"), name="one_proposal_per_first_trial")),
    ]
