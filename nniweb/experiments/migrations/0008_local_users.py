"""The right to run trials on the server's own machine."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0007_accounts_and_audit"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="local_users",
            field=models.CharField(
                blank=True,
                help_text="Users of the server's own machine as whom this person may run trials there (the platform "
                          "local, with runAs), with commas between them. * stands for all of them and for the "
                          "server's own user, whose trials can read everything that is the server's, its keys too. "
                          "Empty: this person cannot run trials on the server's machine. Administrators always can, "
                          "as anybody.",
                max_length=300,
                validators=[django.core.validators.RegexValidator(
                    r"^(\*|[A-Za-z_][A-Za-z0-9_.-]{0,62}(, ?[A-Za-z_][A-Za-z0-9_.-]{0,62})*)?\Z",
                    "Give names of users of the machine with commas between them, such as alice, bob; or * for all; or "
                    "nothing.")],
                verbose_name="may run trials on the server as"),
        ),
    ]
