from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0028_hash_of_kept_files'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='keeper_urls',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='attempt',
            name='remark',
            field=models.JSONField(null=True),
        ),
    ]
