"""Failed trials have the key of their failure, by which equal ones are counted and found; clusters may be degraded."""

from typing import Any

from django.db import migrations, models

from nniweb.experiments.failure_key import failure_key

#: Trials of one statement.
AT_ONCE = 500


def give_keys(apps: Any, _schema_editor: Any) -> None:
    """Of trials that failed before."""
    trials = apps.get_model("experiments", "Trial").objects
    failed = trials.filter(status="FAILED").values_list("pk", "message", "reason", "reason_arguments")
    keys: dict[str, list[int]] = {}
    for pk, message, reason, arguments in failed.iterator(AT_ONCE):
        keys.setdefault(failure_key(message, reason, arguments), []).append(pk)
    for key, pks in keys.items():
        for start in range(0, len(pks), AT_ONCE):
            trials.filter(pk__in=pks[start:start + AT_ONCE]).update(failure=key)


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0043_started_from"),
    ]

    operations = [
        migrations.AlterField(
            model_name="cluster",
            name="health",
            field=models.CharField(choices=[
                ("unknown", "not tried yet"), ("good", "good"), ("degraded", "degraded"),
                ("away", "cannot be asked at the moment"), ("bad", "needs a person")], default="unknown",
                editable=False, max_length=10),
        ),
        migrations.AddField(
            model_name="trial",
            name="failure",
            field=models.CharField(editable=False, max_length=12, null=True),
        ),
        migrations.RunPython(give_keys, migrations.RunPython.noop, elidable=False),
        migrations.AddIndex(
            model_name="trial",
            index=models.Index(condition=models.Q(("failure__isnull", False)),
                               fields=["experiment", "failure", "sequence_id"], name="trials_by_failure"),
        ),
    ]
