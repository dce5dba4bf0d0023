from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0025_tensorboard'),
    ]

    operations = [
        migrations.CreateModel(
            name='SignInAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('mark', models.CharField(db_index=True, max_length=32)),
                ('address', models.CharField(db_index=True, max_length=45)),
                ('at', models.DateTimeField(db_index=True)),
                ('failed', models.BooleanField(default=False)),
            ],
        ),
    ]
