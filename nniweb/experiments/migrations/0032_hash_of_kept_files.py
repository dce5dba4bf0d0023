from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0029_sign_in_attempts'),
    ]

    operations = [
        migrations.AddField(
            model_name='trialfile',
            name='sha256',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
    ]
