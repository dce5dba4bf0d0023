from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0034_interpreters")]

    operations = [
        migrations.AddField("attempt", "refresh_asked_at", models.DateTimeField(null=True)),
        migrations.AddField("attempt", "refreshed_at", models.DateTimeField(null=True)),
        migrations.AddField("attempt", "refresh_problem", models.JSONField(null=True)),
        migrations.AddIndex("attempt", models.Index(
            condition=models.Q(("refresh_asked_at__isnull", False)), fields=["trial"], name="attempts_to_refresh")),
    ]
