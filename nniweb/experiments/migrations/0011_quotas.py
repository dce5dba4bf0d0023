"""Quotas of people and groups, the limit of a cluster, and what they count: the GPUs of a trial."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def fill_in_gpus(apps: Any, _: Any) -> None:
    """For what is there already: trialGpuNumber, which on all platforms with one pod a trial is all of it."""
    apps.get_model("experiments", "Experiment").objects.exclude(trial_gpu_number=None).update(
        gpus_of_a_trial=models.F("trial_gpu_number"))


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('experiments', '0010_stored_bytes'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='max_trials',
            field=models.PositiveIntegerField(blank=True, help_text="Of all experiments together, which then take turns. Empty: no limit of this server's.", null=True, verbose_name='trials at a time'),
        ),
        migrations.AddField(
            model_name='experiment',
            name='gpus_of_a_trial',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.RunPython(fill_in_gpus, migrations.RunPython.noop),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('max_trials', models.PositiveIntegerField(blank=True, help_text='Over all experiments. Empty: no limit.', null=True, verbose_name='trials at a time')),
                ('max_gpus', models.PositiveIntegerField(blank=True, help_text='That its trials ask for. Empty: no limit.', null=True, verbose_name='GPUs at a time')),
                ('max_experiments', models.PositiveIntegerField(blank=True, help_text='That have not ended. Empty: no limit.', null=True, verbose_name='experiments at a time')),
                ('group', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='quota', to='auth.group')),
                ('user', models.OneToOneField(blank=True, help_text='Leave user and group empty for everybody who has no quota of their own.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='quota', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('user', None), ('group', None), _connector='OR'), name='quota_of_a_user_or_a_group', violation_error_message='A quota is of a user or of a group, not of both.'), models.UniqueConstraint(models.Value(1), condition=models.Q(('group', None), ('user', None)), name='one_quota_for_the_rest', violation_error_message='There is a quota for everybody else already.')],
            },
        ),
    ]
