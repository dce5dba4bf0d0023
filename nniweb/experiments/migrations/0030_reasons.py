"""Reasons as codes. What earlier versions wrote is recognised where it can be; the rest is text of others."""

import re
from typing import Any

from django.db import migrations, models

#: The beginning of a sentence as versions before this one wrote it, and the code it stands for. Without arguments, which
#: cannot be had from a sentence: ``lifecycle.reasons.read`` keeps such a sentence as it is.
CODES = [(re.compile(pattern), code) for pattern, code in [
    (r"It waits for a free slot\.", "free_slot"),
    (r"The experiment is [A-Z_]+; it is submitted when", "experiment_held"),
    (r"Waits for the (quota|limit) of ", "quota"),
    (r"A trial asks for .* it can never start\.", "quota_too_small"),
    (r"Waits for \d+ GPU\(s\): another trial took them", "gpu_taken"),
    (r"Waits for (\d+ GPUs?|no GPU): (\d+ GPUs?|no GPU) of machine \S+ (is|are) free", "gpu_held"),
    (r"Waits for room: \d+ trials are on the cluster", "most_objects"),
    (r"Its keeper speaks version ", "keeper_version"),
    (r".* It is submitted again in [\d.e+]+ s\.$", "not_submitted"),
    (r".* It is tried again \(\d+ of \d+\)\.$", "tried_again"),
    (r"The platform took it back into its queue\.$", "requeued"),
    (r"The platform could not be asked about it for 5 minutes\.", "not_answering"),
    (r"The command was not found \(exit code 127\)", "command_not_found"),
    (r"The command could not be executed \(exit code 126\)", "not_executable"),
    (r"The command ended with exit code ", "exit_code"),
    (r"The command was ended by ", "signal"),
    (r"It could not be started\.", "not_started"),
    (r"It ran longer than maxTrialDuration allows\.", "time_limit"),
    (r"Canceled by a person\.$", "canceled"),
    (r"Stopped early\.$", "stopped_early"),
    (r"Canceled by the platform\.$", "canceled_by_platform"),
    (r"Something outside of this server stopped its keeper", "keeper_stopped"),
    (r"The experiment was stopped\.$", "experiment_stopped"),
    (r"All \d+ trials of maxTrialNumber were submitted\.", "max_trial_number"),
    (r"It has run for maxExperimentDuration ", "max_duration"),
    (r"The tuner has no further parameters to try\.$", "tuner_exhausted"),
]]
#: Rows that are changed by one statement.
CHUNK = 500
#: A sentence is recognised by so many of its characters at most.
LONGEST = 10_000


def code_of(message: str) -> str:
    """The code of a sentence of an earlier version; ``other`` for what is not recognised."""
    if len(message) > LONGEST:
        return "other"
    return next((code for pattern, code in CODES if pattern.match(message)), "other")


def recognise(apps: Any, _: Any) -> None:
    for name in ("Trial", "Experiment", "Cluster"):
        model = apps.get_model("experiments", name)
        last = 0
        while rows := list(model.objects.filter(pk__gt=last).exclude(message="").order_by("pk")
                           .only("pk", "message")[:CHUNK]):
            by_code: dict[str, list[int]] = {}
            for row in rows:
                by_code.setdefault(code_of(row.message), []).append(row.pk)
            for code, keys in by_code.items():
                model.objects.filter(pk__in=keys).update(reason=code)
            last = rows[-1].pk


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0029_unheard_keepers"),
    ]

    operations = [
        *(migrations.AddField(model_name=model, name=name, field=field)
          for model in ("trial", "experiment", "cluster")
          for name, field in (
              ("reason", models.CharField(blank=True, default="", editable=False, max_length=32)),
              ("reason_arguments", models.JSONField(default=dict, editable=False)))),
        migrations.RunPython(recognise, migrations.RunPython.noop, elidable=False),
    ]
