"""Rows of the audit log name the token by which something was done."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0061_leashes_of_tokens")]

    operations = [
        migrations.AddField("auditentry", "token_id", models.BigIntegerField(editable=False, null=True)),
        migrations.AddIndex("auditentry", models.Index(
            fields=["token_id", "at"], name="audit_by_token", condition=models.Q(token_id__isnull=False))),
    ]
