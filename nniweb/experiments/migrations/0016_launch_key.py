from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0012_names_folders")]

    operations = [
        migrations.AddField("experiment", "launch_key",
                            models.CharField(editable=False, max_length=140, null=True, unique=True)),
    ]
