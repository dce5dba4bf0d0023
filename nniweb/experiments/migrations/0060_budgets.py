"""Budgets, the ledger, prices of hours, and the CPUs that trials ask for."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('experiments', '0059_tokens_of_experiments'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='cpus_of_a_trial',
            field=models.FloatField(default=1.0),
        ),
        migrations.AddField(
            model_name='experimentcluster',
            name='cpus_of_a_trial',
            field=models.FloatField(default=1.0),
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('period', models.CharField(choices=[('month', 'each month'), ('total', 'in total')], default='month', help_text='Months begin at midnight UTC.', max_length=5)),
                ('is_own', models.BooleanField(default=False, editable=False)),
                ('gpu_hours', models.DecimalField(blank=True, decimal_places=4, help_text='Hours of trials, times their GPUs. Empty: no limit.', max_digits=16, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='GPU-hours')),
                ('cpu_hours', models.DecimalField(blank=True, decimal_places=4, help_text='Hours of trials, times their CPUs. Empty: no limit.', max_digits=16, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='CPU-hours')),
                ('trials', models.PositiveIntegerField(blank=True, help_text='Trials that begin; retries are no trials more. Empty: no limit.', null=True)),
                ('wall_hours', models.DecimalField(blank=True, decimal_places=4, help_text='The time that trials run, added up. Empty: no limit.', max_digits=16, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='hours of trials')),
                ('money', models.DecimalField(blank=True, decimal_places=4, help_text='By the prices of clusters and machines. Empty: no limit.', max_digits=16, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='money')),
                ('experiment', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='experiments.experiment')),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='auth.group')),
                ('token', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='experiments.apitoken')),
                ('user', models.ForeignKey(blank=True, help_text='Leave user, group, token and experiment empty for everybody who has no budget of their own.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='BudgetUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('person', models.BigIntegerField(default=0)),
                ('month', models.CharField(blank=True, max_length=7)),
                ('counted_to', models.BigIntegerField(default=0)),
                ('trials', models.BigIntegerField(default=0)),
                ('milliseconds', models.BigIntegerField(default=0)),
                ('gpu_milliseconds', models.BigIntegerField(default=0)),
                ('milli_cpu_milliseconds', models.BigIntegerField(default=0)),
                ('money', models.BigIntegerField(default=0)),
                ('budget', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='uses', to='experiments.budget')),
            ],
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(editable=False)),
                ('job_name', models.CharField(editable=False, max_length=20, unique=True)),
                ('number', models.PositiveIntegerField(editable=False)),
                ('trial', models.CharField(editable=False, max_length=12)),
                ('sequence_id', models.PositiveIntegerField(editable=False)),
                ('experiment_id', models.BigIntegerField(editable=False)),
                ('experiment', models.CharField(editable=False, max_length=12)),
                ('experiment_name', models.CharField(editable=False, max_length=255)),
                ('owner_id', models.BigIntegerField(editable=False, null=True)),
                ('owner', models.CharField(blank=True, editable=False, max_length=150)),
                ('group_id', models.BigIntegerField(editable=False, null=True)),
                ('group', models.CharField(blank=True, editable=False, max_length=150)),
                ('token_id', models.BigIntegerField(editable=False, null=True)),
                ('token', models.CharField(blank=True, editable=False, max_length=100)),
                ('cluster_id', models.BigIntegerField(editable=False)),
                ('cluster', models.CharField(editable=False, max_length=100)),
                ('machine', models.CharField(blank=True, editable=False, max_length=255)),
                ('month', models.CharField(editable=False, max_length=7)),
                ('began_at', models.DateTimeField(editable=False, null=True)),
                ('ended_at', models.DateTimeField(editable=False)),
                ('milliseconds', models.BigIntegerField(editable=False)),
                ('measured_by', models.CharField(choices=[('keeper', 'the keeper'), ('server', 'the server'), ('none', 'it never began')], editable=False, max_length=6)),
                ('gpus', models.PositiveIntegerField(editable=False)),
                ('milli_cpus', models.PositiveIntegerField(editable=False)),
                ('gpu_hour_price', models.BigIntegerField(editable=False)),
                ('cpu_hour_price', models.BigIntegerField(editable=False)),
                ('money', models.BigIntegerField(editable=False)),
            ],
            options={
                'verbose_name_plural': 'ledger',
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['experiment_id', 'id'], name='ledger_of_experiments'), models.Index(condition=models.Q(('owner_id__isnull', False)), fields=['owner_id', 'id'], name='ledger_of_people'), models.Index(condition=models.Q(('group_id__isnull', False)), fields=['group_id', 'id'], name='ledger_of_groups'), models.Index(condition=models.Q(('token_id__isnull', False)), fields=['token_id', 'id'], name='ledger_of_tokens')],
            },
        ),
        migrations.CreateModel(
            name='Price',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('machine', models.CharField(blank=True, help_text='Name of the machine. Empty: all that have no price of their own.', max_length=255)),
                ('gpu_hour', models.DecimalField(decimal_places=6, default=0, max_digits=12, validators=[django.core.validators.MinValueValidator(0)], verbose_name='price of a GPU-hour')),
                ('cpu_hour', models.DecimalField(decimal_places=6, default=0, max_digits=12, validators=[django.core.validators.MinValueValidator(0)], verbose_name='price of a CPU-hour')),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='experiments.cluster')),
            ],
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('group', None), ('token', None), ('user', None)), models.Q(('experiment', None), ('group', None), ('user', None)), models.Q(('experiment', None), ('token', None), ('user', None)), models.Q(('experiment', None), ('group', None), ('token', None)), _connector='OR'), name='budget_of_one_subject', violation_error_message='A budget is of a user, a group, a token or an experiment, not of several.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('user__isnull', False)), fields=('user', 'period'), name='one_budget_of_user', violation_error_message='There is a budget of this user for this period already.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('group__isnull', False)), fields=('group', 'period'), name='one_budget_of_group', violation_error_message='There is a budget of this group for this period already.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('token__isnull', False)), fields=('token', 'period'), name='one_budget_of_token', violation_error_message='There is a budget of this token for this period already.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('experiment__isnull', False)), fields=('experiment', 'period', 'is_own'), name='one_budget_of_experiment', violation_error_message='There is a budget of this experiment for this period already.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('experiment', None), ('group', None), ('token', None), ('user', None)), fields=('period',), name='one_budget_for_the_rest', violation_error_message='There is a budget for everybody else for this period already.'),
        ),
        migrations.AddConstraint(
            model_name='budgetuse',
            constraint=models.UniqueConstraint(fields=('budget', 'person', 'month'), name='one_use_of_a_budget'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.UniqueConstraint(fields=('cluster', 'machine'), name='one_price_for_a_machine', violation_error_message='There is a price for this machine already.'),
        ),
    ]
