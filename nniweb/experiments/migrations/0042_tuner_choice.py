from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0041_tuner_exits_ports_and_platforms'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='tuner_choice',
            field=models.JSONField(editable=False, null=True),
        ),
    ]
