"""Documents that are put together by hand have what their description says: all of it, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework import serializers

from nniweb.documents.experiments import ExperimentSerializer, ProgressSerializer
from nniweb.documents.trials import TrialSerializer
from nniweb.experiments.models import Attempt, Experiment, Trial


def fits(document: dict[str, Any], described: type[serializers.Serializer[Any]]) -> None:
    fields = described().fields
    assert list(document) == list(fields)
    for name, field in fields.items():
        value = document[name]
        if value is None:
            assert field.allow_null, name
        elif not isinstance(field, serializers.BaseSerializer | serializers.DateTimeField):
            assert field.to_representation(value) == value, name
        elif isinstance(field, serializers.DateTimeField):
            assert field.to_representation(field.to_internal_value(value)) == value, name


@pytest.mark.django_db
def test_what_is_said_of_an_experiment_and_a_trial_is_what_the_schema_says(
        api: Any, make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment()
    now = experiment.created_at
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, created_at=now, started_at=now, ended_at=now,
                                 status="SUCCEEDED", final_value="0.5", final_number=0.5)
    bare = Trial.objects.create(experiment=experiment, sequence_id=1, created_at=now)
    Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=now, stage="ended", duration=1.5,
                           exit_code=0, gpu_indices=[1], machine_name="box", url="ssh://box")
    found = api.get(f"/api/v1/experiments/{experiment.public_id}/").json()
    fits(found, ExperimentSerializer)
    fits(found["progress"], ProgressSerializer)
    for one in (trial, bare):
        document = api.get(f"/api/v1/trials/{one.public_id}/").json()
        assert list(document) == [*TrialSerializer().fields, "advice", "notes", "place"]
        document.pop("advice")
        assert document.pop("notes") == ""
        assert document.pop("place") is None
        fits(document, TrialSerializer)
