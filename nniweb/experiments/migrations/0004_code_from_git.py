from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("experiments", "0003_failed_trials")]

    operations = [
        migrations.AddField("experiment", "code_git", models.JSONField(null=True)),
        migrations.AddField("experiment", "code_git_token", models.BinaryField(null=True)),
    ]
