"""Metrics beside "default" of the final results that are there already."""

import json
import math
from typing import Any

from django.db import migrations

_CHUNK, _MOST_NAMES, _LONGEST_NAME = 1000, 50, 100


def keep_numbers(apps: Any, _: Any) -> None:
    trials = apps.get_model("experiments", "Trial").objects.filter(final_value__isnull=False)
    names_model = apps.get_model("experiments", "MetricName")
    numbers_model = apps.get_model("experiments", "MetricNumber")
    ids: dict[int, dict[str, int]] = {}
    last = 0
    while rows := list(trials.filter(pk__gt=last).order_by("pk").values_list("pk", "experiment", "final_value")[:_CHUNK]):
        kept = []
        for trial, experiment, value in rows:
            known = ids.setdefault(experiment, {})
            for name, number in _numbers(value).items():
                if name not in known and len(known) < _MOST_NAMES:
                    known[name] = names_model.objects.create(experiment_id=experiment, name=name).pk
                if name in known:
                    kept.append(numbers_model(trial_id=trial, metric_id=known[name], final=number))
        numbers_model.objects.bulk_create(kept, batch_size=_CHUNK)
        last = rows[-1][0]


def _numbers(value: str) -> dict[str, float]:
    if not value.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return {name: float(number) for name, number in found.items()
            if name != "default" and 0 < len(name) <= _LONGEST_NAME and name.isprintable() and name.strip()
            and isinstance(number, int | float) and not isinstance(number, bool)
            and abs(number) < 1e308 and math.isfinite(number)}


class Migration(migrations.Migration):

    dependencies = [("experiments", "0017_objectives")]

    operations = [migrations.RunPython(keep_numbers, migrations.RunPython.noop, elidable=True)]
