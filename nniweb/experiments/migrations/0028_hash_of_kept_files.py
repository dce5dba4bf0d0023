from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0027_sessions_by_digest'),
    ]

    operations = [
        migrations.AddField(
            model_name='trialfile',
            name='sha256',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
    ]
