"""The right to name code folders on the server."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0011_quotas"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="names_folders",
            field=models.BooleanField(
                default=False,
                help_text="In what they launch this person may name folders of the server's own machine, below those of "
                          "NNIWEB_CODE_ROOTS; whatever lies there, their trials can read. Administrators always may.",
                verbose_name="may name code folders on the server"),
        ),
    ]
