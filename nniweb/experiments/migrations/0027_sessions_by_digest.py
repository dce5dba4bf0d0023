"""Sessions are kept by digests of their keys; whoever is signed in stays so."""

import hashlib
from typing import Any

from django.db import migrations, models

AT_ONCE = 1000


def _hash_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def hash_keys(apps: Any, schema_editor: Any) -> None:
    old, new = apps.get_model("sessions", "Session"), apps.get_model("experiments", "Session")
    ticket = apps.get_model("experiments", "TensorBoardTicket")
    if schema_editor.connection.vendor == "sqlite":
        # what is removed is overwritten: these keys open sessions that go on
        schema_editor.execute("PRAGMA secure_delete = ON")
    keys = list(old.objects.values_list("session_key", flat=True))
    for first in range(0, len(keys), AT_ONCE):
        rows = old.objects.filter(session_key__in=keys[first: first + AT_ONCE])
        new.objects.bulk_create(new(session_key=_hash_of(row.session_key), session_data=row.session_data,
                                    expire_date=row.expire_date) for row in rows)
    old.objects.all().delete()
    for row in ticket.objects.all():
        ticket.objects.filter(pk=row.pk).update(session_hash=_hash_of(row.session_hash))


class Migration(migrations.Migration):

    dependencies = [
        ('sessions', '0001_initial'),
        ('experiments', '0026_sign_in_attempts'),
    ]

    operations = [
        migrations.CreateModel(
            name='Session',
            fields=[
                ('session_key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
            ],
            options={
                'verbose_name': 'session',
                'verbose_name_plural': 'sessions',
                'abstract': False,
            },
        ),
        migrations.RenameField(model_name='tensorboardticket', old_name='session_key', new_name='session_hash'),
        migrations.AlterField(model_name='tensorboardticket', name='session_hash',
                              field=models.CharField(max_length=64)),
        migrations.RunPython(hash_keys, migrations.RunPython.noop),
    ]
