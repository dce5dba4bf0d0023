"""Programs outside of the server propose parameters, and name their proposals."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0057_places")]

    operations = [
        migrations.CreateModel("ProposalKey", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("key", models.CharField(max_length=100)),
            ("experiment", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE,
                                             related_name="proposal_keys", to="experiments.experiment")),
            ("trial", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="proposal_key",
                                           to="experiments.trial")),
        ]),
        migrations.AddConstraint("proposalkey", models.UniqueConstraint(
            fields=("experiment", "key"), name="one_trial_for_a_proposal_key")),
    ]
