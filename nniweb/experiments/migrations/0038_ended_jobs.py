from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0037_nni_port")]

    operations = [
        migrations.AddField("experiment", "jobs_due_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("experiment", "jobs_removed_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddIndex("experiment", models.Index(
            fields=["cluster"], name="experiments_with_ended_jobs",
            condition=models.Q(jobs_due_at__isnull=False))),
    ]
