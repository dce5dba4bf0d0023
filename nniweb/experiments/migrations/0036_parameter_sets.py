from django.db import migrations, models

import nniweb.experiments.sql.exact_text


class Migration(migrations.Migration):
    dependencies = [("experiments", "0035_refresh_of_trials")]

    operations = [
        migrations.AddField("experiment", "multi_phase", models.BooleanField(default=False)),
        migrations.AddField("trial", "result_index", models.PositiveIntegerField(default=0)),
        migrations.AddField("trial", "parameter_set_count", models.PositiveIntegerField(default=1)),
        migrations.AddField("trialparameters", "final_value", nniweb.experiments.sql.exact_text.ExactTextField(null=True)),
        migrations.AddField("trialparameters", "final_number", models.FloatField(null=True)),
        migrations.AddField("trialparameters", "taught", models.BooleanField(default=False)),
        migrations.AddIndex("trialparameters", models.Index(
            condition=models.Q(("final_value__isnull", False), ("taught", False)), fields=["trial"],
            name="parameter_sets_not_taught")),
    ]
